/* test_fuzz.c: everything that reads words from outside, fed with what is almost right.
 *
 * Frames of the gathering and the environment; test_fuzz_args.c has the command's arguments.  Inputs are mangled from
 * good ones.  A reader takes what it is given or refuses it; what it takes must be sound, what it
 * refuses it must say in one line, and for some it is known by another rule which of the two is right.
 * Run under the sanitizers, these are the fuzzers of the house. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "comm/comm.h"
#include "mangle.h"
#include "transport/wire.h"

static uint32_t rounds(uint32_t plain)
{
    return test_sanitized() ? plain / 4 : plain;
}

static bool is_one_line(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return false;
    return *text != 0;
}

/* --- the environment --- */

/* Refused in one line that begins with the variable's name, or taken. */
static void check_verdict(const char *name, const char *text, ronda_status status,
                          const rd_error *err)
{
    if (!status)
        return;
    CHECK((status == RONDA_EINVAL || status == RONDA_EUNSUPPORTED || status == RONDA_ELIMIT) &&
              err->status == status && is_one_line(err->message) &&
              memchr(err->message, 0, sizeof err->message),
          "%s=%s: %d: %s", name, text, status, err->message);
    CHECK(strstr(err->message, name), "%s=%s: %s", name, text, err->message);
}

/* What RONDA_TIMEOUT means by strtod(), for texts that are digits and at most one point. */
static bool timeout_is_good(const char *text)
{
    const char *point = strchr(text, '.');
    if (strspn(text, "0123456789.") != strlen(text) || (point && strchr(point + 1, '.')))
        return false;
    const double s = strtod(text, NULL);
    return s > 0 && s <= 1e9 && s * 1e9 >= 1;
}

TEST(mangled_timeouts)
{
    static const char *const texts[] = {"60",          "0.5",      "1", "1000000000",
                                        "0.000000001", "86400.25", NULL};
    rng r = rng_start();
    uint32_t taken = 0;
    for (uint32_t i = 0; i < rounds(200000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_settings s;
        rd_error err = {0};
        setenv("RONDA_TIMEOUT", text, 1);
        const ronda_status status = rd_settings_read(NULL, &s, &err);
        check_verdict("RONDA_TIMEOUT", text, status, &err);
        const double want = strtod(text, NULL) * 1e9;
        if (*text && fabs(want - 1) > 0.5 && fabs(want - 1e18) > 1e9) /* where rounding decides */
            CHECK((status == RONDA_OK) == timeout_is_good(text), "RONDA_TIMEOUT=%s: %d", text,
                  status);
        if (!status && *text && *text != '?')
            CHECK(s.timeout_ns > 0 && fabs((double)s.timeout_ns - want) <= 2 + want * 1e-9,
                  "RONDA_TIMEOUT=%s: %" PRIu64 " ns", text, s.timeout_ns);
        taken += !status;
        free(text);
    }
    unsetenv("RONDA_TIMEOUT");
    CHECK(taken > 100, "only %u were taken", taken);
}

TEST(mangled_algorithms)
{
    static const char *const texts[] = {"allreduce=ring", "allreduce=ring,broadcast=tree",
                                        "barrier=star,allgather=bruck,reduce_scatter=direct", "",
                                        NULL};
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(200000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_settings s;
        rd_error err = {0};
        setenv("RONDA_ALGO", text, 1);
        const ronda_status status = rd_settings_read(NULL, &s, &err);
        check_verdict("RONDA_ALGO", text, status, &err);
        for (ronda_kind k = RONDA_ALLREDUCE; k <= RONDA_BARRIER && !status; k++) {
            char item[100] = "";
            if (s.forced[rd_kind_row(k)])
                snprintf(item, sizeof item, "%s=%s", rd_kind_name(k),
                         s.forced[rd_kind_row(k)]->name);
            CHECK(!s.forced[rd_kind_row(k)] ||
                      (s.forced[rd_kind_row(k)]->kind == k && strstr(text, item)),
                  "RONDA_ALGO=%s gave %s", text, item);
        }
        free(text);
    }
    unsetenv("RONDA_ALGO");
}

TEST(every_algorithm_can_be_named)
{
    for (const rd_algorithm *a = rd_algorithms; a->name; a++) {
        char text[100];
        rd_settings s;
        rd_error err = {0};
        snprintf(text, sizeof text, ",%s=%s,", rd_kind_name(a->kind), a->name);
        setenv("RONDA_ALGO", text, 1);
        CHECK(!rd_settings_read(NULL, &s, &err) && s.forced[rd_kind_row(a->kind)] == a, "%s: %s",
              text, err.message);
    }
    unsetenv("RONDA_ALGO");
}

TEST(mangled_logs)
{
    static const char *const texts[] = {"none", "info", "debug", NULL};
    rng r = rng_start();
    for (uint32_t i = 0; i < rounds(50000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_settings s;
        rd_error err = {0};
        setenv("RONDA_LOG", text, 1);
        const ronda_status status = rd_settings_read(NULL, &s, &err);
        check_verdict("RONDA_LOG", text, status, &err);
        bool known = !*text;
        for (int k = 0; k < 3; k++)
            known |= strcmp(text, texts[k]) == 0;
        CHECK((status == RONDA_OK) == known, "RONDA_LOG=%s: %d", text, status);
        free(text);
    }
    unsetenv("RONDA_LOG");
}

static bool is_number_below(const char *text, uint32_t limit)
{
    const bool digits = *text && strspn(text, "0123456789") == strlen(text);
    return digits && strtod(text, NULL) < limit;
}

TEST(mangled_places)
{
    static const char *const texts[] = {"1", "0", "1023", "1024", "7", "16", NULL};
    rng r = rng_start();
    const rd_settings settings = {.timeout_ns = 1};
    setenv("RONDA_ADDR", "file:/nowhere", 1);
    for (uint32_t i = 0; i < rounds(100000) && !test_failed(); i++) {
        char *size = mangled_text(&r, texts), *rank = mangled_text(&r, texts);
        rd_joining j;
        rd_error err = {0};
        setenv("RONDA_SIZE", size, 1);
        setenv("RONDA_RANK", rank, 1);
        const ronda_status status = rd_world_read(NULL, &settings, &j, &err);
        const bool good = is_number_below(size, RD_MOST_PROCESSES + 1) &&
                          is_number_below(rank, RD_MOST_PROCESSES) && atof(rank) < atof(size);
        if (*size && *rank)
            CHECK((status == RONDA_OK) == good, "rank '%s' of '%s': %d: %s", rank, size, status,
                  err.message);
        CHECK(status ? is_one_line(err.message) : j.rank < j.size, "rank '%s' of '%s': %u of %u",
              rank, size, j.rank, j.size);
        free(size);
        free(rank);
    }
    unsetenv("RONDA_SIZE");
    unsetenv("RONDA_RANK");
    unsetenv("RONDA_ADDR");
}

/* A host, a port, and nothing else that is a number for some readers. */
static bool is_host_and_port(const char *text, const rd_address *a)
{
    char again[300];
    const char *colon = strrchr(text, ':');
    const bool port = colon && isdigit((unsigned char)colon[1]) && atof(colon + 1) >= 1 &&
                      atof(colon + 1) <= 65535 &&
                      strspn(colon + 1, "0123456789") == strlen(colon + 1);
    if (!port || a->port != atoi(colon + 1))
        return false;
    if (strncmp(text, "localhost:", 10) == 0)
        return strcmp(a->host, "127.0.0.1") == 0;
    snprintf(again, sizeof again, strchr(a->host, ':') ? "[%s]:" : "%s:", a->host);
    return strncmp(text, again, (size_t)(colon + 1 - text)) == 0 && !strpbrk(a->host, " []/@");
}

TEST(mangled_addresses)
{
    static const char *const texts[] = {"file:/tmp/ronda/door",
                                        "file:@ronda",
                                        "127.0.0.1:4321",
                                        "localhost:1",
                                        "127.255.0.9:65535",
                                        "file:x",
                                        "[::1]:4321",
                                        "[fe80::1%2]:80",
                                        "node-7.cluster_a:29500",
                                        "10.0.0.1:1",
                                        NULL};
    rng r = rng_start();
    uint32_t taken[2] = {0};
    for (uint32_t i = 0; i < rounds(300000) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts);
        rd_address a;
        rd_error err = {0};
        const ronda_status status = rd_address_read(text, &a, &err);
        check_verdict("RONDA_ADDR", text, status, &err);
        if (!status && a.kind == RD_ADDRESS_FILE)
            CHECK(strncmp(text, "file:", 5) == 0 && strcmp(a.path, text + 5) == 0 && *a.path,
                  "%s became %s", text, a.path);
        else if (!status)
            CHECK(is_host_and_port(text, &a), "%s became %s:%u", text, a.host, a.port);
        else
            CHECK(strncmp(text, "file:", 5) != 0 || strlen(text) == 5 || strlen(text) > 5 + 107,
                  "%s was refused: %s", text, err.message);
        taken[0] += !status && a.kind == RD_ADDRESS_FILE;
        taken[1] += !status && a.kind == RD_ADDRESS_TCP;
        free(text);
    }
    CHECK(taken[0] > 100 && taken[1] > 100, "only %u and %u were taken", taken[0], taken[1]);
}
