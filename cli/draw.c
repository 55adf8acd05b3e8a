/* draw.c: `ronda plan --draw` and `--svg`: the picture, and where it goes.
 *
 * A picture is drawn in memory first: no file is touched before there is something to write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "picture.h"

static const char ME[] = "plan";

/* To be freed; NULL: no memory. */
static char *drawn(void (*draw)(FILE *to, const cli_picture *p), const cli_picture *p)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return NULL;
    draw(to, p);
    const bool whole = !ferror(to);
    if (fclose(to) == 0 && whole)
        return text;
    free(text);
    return NULL;
}

static int write_file(const char *path, const char *text)
{
    FILE *to = cli_open_to_write(path);
    if (!to)
        return cli_failed(ME, "cannot write %s: %s", path, strerror(errno));
    errno = 0;
    const bool put = fputs(text, to) >= 0 && fflush(to) == 0;
    const int why = errno;
    if (fclose(to) == 0 && put)
        return CLI_OK;
    return cli_failed(ME, "cannot write %s: %s", path, strerror(why ? why : EIO));
}

static int show(const cli_picture *p, const char *path)
{
    char *text = drawn(path ? cli_draw_svg : cli_draw_text, p);
    int status = CLI_OK;
    if (!text)
        return cli_failed(ME, "no memory");
    if (path && strcmp(path, "-") != 0)
        status = write_file(path, text);
    else
        cli_put(text);
    free(text);
    return status;
}

int cli_draw(const cli_plan_request *request)
{
    cli_picture p;
    int status = CLI_OK;
    if (!cli_picture_make(request, &p))
        status = cli_failed(ME, "no memory");
    if (!status && request->draw)
        status = show(&p, NULL);
    if (!status && request->svg)
        status = show(&p, request->svg);
    cli_picture_free(&p);
    return status;
}
