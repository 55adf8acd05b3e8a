/* run_agent.c: the command that starts a program on a host: ssh, or what the user names.
 *
 *   ssh -o BatchMode=yes      NODE   /usr/bin/ronda run --remote-side
 *   ip netns exec {host}             /usr/bin/ronda run --remote-side
 *   `---- AGENT --------'  added if  `---- what runs there ---------'
 *                          {host} is
 *                          not in it
 *
 * What ranks need to know, the key among it, goes through its standard input: every user can see arguments. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "args.h"
#include "base/mem.h"
#include "run.h"

static const char ME[] = "run";
static const char PLACE[] = "{host}";

/* No password can be typed; a host that is gone is noticed. */
static const char DEFAULT[] = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o LogLevel=ERROR "
                              "-o ServerAliveInterval=15";

enum { MOST_WORDS = 64 };

struct run_agent {
    char *words[MOST_WORDS + 1];
    size_t count;
    bool placed;              /* a word has {host} in it */
    char ronda[2 * PATH_MAX]; /* quoted, if a shell will read it */
    char text[];
};

/* --- reading it --- */

/* Cuts a text into words, as a shell does: quotes keep blanks.  false: a quote is not closed, or there
 * are too many words. */
static bool cut(run_agent *a, const char *text)
{
    char *to = a->text;
    while (text += strspn(text, " \t"), *text) {
        char quote = 0;
        if (a->count == MOST_WORDS)
            return false;
        a->words[a->count++] = to;
        for (; *text && (quote || !strchr(" \t", *text)); text++) {
            if (!quote && (*text == '\'' || *text == '"'))
                quote = *text;
            else if (quote && *text == quote)
                quote = 0;
            else
                *to++ = *text;
        }
        *to++ = 0;
        if (quote)
            return false;
    }
    return a->count > 0;
}

/* ssh and its like join the words and have a shell read them. */
static bool through_shell(const run_agent *a)
{
    static const char *const names[] = {"ssh", "rsh", "remsh", "autossh", NULL};
    const char *slash = strrchr(a->words[0], '/'), *name = slash ? slash + 1 : a->words[0];
    for (size_t i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void quote_into(char *to, size_t capacity, const char *text)
{
    size_t at = 0;
    to[at++] = '\'';
    for (; *text && at + 6 < capacity; text++) {
        if (*text == '\'') {
            memcpy(to + at, "'\\''", 4);
            at += 4;
        } else {
            to[at++] = *text;
        }
    }
    to[at++] = '\'';
    to[at] = 0;
}

static bool find_ronda(run_agent *a, const char *given)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+@%~";
    char path[PATH_MAX];
    const ssize_t length = given ? 0 : readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = 0;
    if (given)
        snprintf(path, sizeof path, "%s", given);
    if (through_shell(a) && strspn(path, plain) != strlen(path))
        quote_into(a->ronda, sizeof a->ronda, path);
    else
        snprintf(a->ronda, sizeof a->ronda, "%s", path);
    return true;
}

run_agent *run_agent_read(const run_request *q)
{
    const char *set = getenv("RONDA_AGENT");
    const char *text = q->agent ? q->agent : set && *set ? set : DEFAULT;
    run_agent *a = rd_alloc(sizeof *a + strlen(text) + 1);
    if (!a) {
        cli_failed(ME, "no memory");
        return NULL;
    }
    if (!cut(a, text) || !a->words[0][0]) {
        cli_wrong(ME, "the agent '%s' is not a command: it is empty, or a quote is open", text);
        rd_free(a);
        return NULL;
    }
    for (size_t i = 0; i < a->count; i++)
        a->placed |= strstr(a->words[i], PLACE) != NULL;
    if (!find_ronda(a, q->remote_ronda)) {
        cli_failed(ME, "cannot find the path of ronda: say --remote-ronda PATH");
        rd_free(a);
        return NULL;
    }
    return a;
}

void run_agent_free(run_agent *a)
{
    rd_free(a);
}

/* --- using it --- */

/* A word of the agent with the host in the place of each {host}. */
static bool add_word(cli_words *out, const char *word, const char *host)
{
    char text[1024 + HOSTS_NAME] = "";
    size_t length = 0;
    for (const char *at; (at = strstr(word, PLACE)); word = at + sizeof PLACE - 1)
        length += (size_t)snprintf(text + length, length < sizeof text ? sizeof text - length : 0,
                                   "%.*s%s", (int)(at - word), word, host);
    return length < sizeof text && cli_words_add(out, "%s%s", text, word);
}

bool run_agent_words(const run_agent *a, const hosts_host *h, cli_words *out)
{
    bool good = true;
    for (size_t i = 0; i < a->count && good; i++)
        good = add_word(out, a->words[i], h->name);
    return good && (a->placed || cli_words_add(out, "%s", h->name)) &&
           cli_words_add(out, "%s", a->ronda) && cli_words_add(out, "run") &&
           cli_words_add(out, "--remote-side");
}

/* In a session of its own, so that signals of a terminal reach it through us alone. */
static _Noreturn void become(char **words, pid_t parent, const int streams[3],
                             const struct rlimit *files)
{
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(RUN_NOT_FOUND);
    for (int i = 0; i < 3; i++)
        if (dup2(streams[i], i) < 0)
            _exit(RUN_NOT_FOUND);
    setrlimit(RLIMIT_NOFILE, files);
    run_reset_signals();
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "cannot start '%s': %s\n", words[0], strerror(errno));
    _exit(RUN_NOT_FOUND);
}

pid_t run_agent_start(const run_agent *a, const hosts_host *h, const int streams[3],
                      const struct rlimit *files)
{
    cli_words words = {0};
    errno = ENOMEM;
    const pid_t parent = getpid(), child = run_agent_words(a, h, &words) ? fork() : -1;
    if (child == 0)
        become(words.at, parent, streams, files);
    cli_words_free(&words);
    return child;
}
