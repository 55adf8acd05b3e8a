#include "folders.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

bool folder_make(char path[40])
{
    const int length = snprintf(path, 40, "/tmp/ronda-test-");
    memset(path + length, 'X', 6);
    path[length + 6] = 0;
    return CHECK(mkdtemp(path) != NULL, "no folder: %s", strerror(errno));
}

void folder_put(const char *base, const char *path, const char *text)
{
    char whole[400];
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    for (char *slash = whole + strlen(base) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        CHECK(mkdir(whole, 0700) == 0 || errno == EEXIST, "%s: %s", whole, strerror(errno));
        *slash = '/';
    }
    FILE *to = fopen(whole, "w");
    if (CHECK(to, "%s: %s", whole, strerror(errno))) {
        fputs(text, to);
        fclose(to);
    }
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is;
    (void)kind;
    (void)where;
    return remove(path);
}

void folder_remove(const char *base)
{
    nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
