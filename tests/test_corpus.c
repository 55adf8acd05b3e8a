/* test_corpus.c: all that the fuzzers of fuzz/ begin with or have stumbled over, once more, in every build.
 *
 * A fuzzer that does not like what it sees ends the program, and the file's name is the last that was said. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

typedef int fuzzer(const uint8_t *bytes, size_t length);
fuzzer fuzz_handshake, fuzz_wire, fuzz_stream, fuzz_hosts, fuzz_address_file;

enum { MOST_BYTES = 1 << 20 };

static void replay_file(const char *path, fuzzer *fuzz)
{
    FILE *file = fopen(path, "rb");
    uint8_t *all = malloc(MOST_BYTES);
    if (!CHECK(file && all, "cannot read %s", path)) {
        free(all);
        return;
    }
    const size_t length = fread(all, 1, MOST_BYTES, file);
    uint8_t *bytes = malloc(length ? length : 1); /* of its size: who reads on is caught */
    fclose(file);
    if (bytes)
        memcpy(bytes, all, length);
    free(all);
    CHECK(bytes && fuzz(bytes, length) == 0, "%s", path);
    free(bytes);
}

static void replay(const char *name, fuzzer *fuzz)
{
    char folder[100], path[400];
    uint32_t files = 0;
    snprintf(folder, sizeof folder, "fuzz/corpus/%s", name);
    DIR *d = opendir(folder);
    if (!CHECK(d, "no %s: tests run where the Makefile is", folder))
        return;
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        replay_file(path, fuzz);
        files++;
    }
    closedir(d);
    CHECK(files > 0, "%s is empty", folder);
}

TEST(the_corpus_of_handshake)
{
    replay("handshake", fuzz_handshake);
}

TEST(the_corpus_of_wire)
{
    replay("wire", fuzz_wire);
}

TEST(the_corpus_of_stream)
{
    replay("stream", fuzz_stream);
}

TEST(the_corpus_of_hosts)
{
    replay("hosts", fuzz_hosts);
}

TEST(the_corpus_of_address_file)
{
    replay("address_file", fuzz_address_file);
}
