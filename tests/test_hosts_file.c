/* test_hosts_file.c: lists of hosts, right ones, wrong ones and mangled ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/run.h"
#include "mangle.h"

/* The list as text, "a:4 b:1", to be compared. */
static const char *shown(const hosts_list *l)
{
    static char text[2000];
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < l->count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:%" PRIu32, i ? " " : "",
                               l->at[i].name, l->at[i].slots);
    return text;
}

TEST(lists_that_are_right)
{
    static const struct {
        bool commas;
        const char *text, *means;
    } rows[] = {
        {false, "a", "a:1"},
        {false, "a\n", "a:1"},
        {false, "a 4\nb:3\nc slots=2\n", "a:4 b:3 c:2"},
        {false, "\n# all of them\n  a\t 4  # here\n\n\r\nb:3\r\n", "a:4 b:3"},
        {false, "me@node-1.example.org:2", "me@node-1.example.org:2"},
        {false, "[fe80::1%eth0]:4\n[::1] 2\nroot@[2001:db8::7] slots=1024",
         "fe80::1%eth0:4 ::1:2 root@2001:db8::7:1024"},
        {false, "a 2\nb\na 3\n", "a:5 b:1"},
        {false, "10.0.0.1 0002\n", "10.0.0.1:2"},
        {true, "a:4,b:4", "a:4 b:4"},
        {true, "a", "a:1"},
        {true, "[::1]:2,a", "::1:2 a:1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[HOSTS_WHY] = "";
        hosts_list l = {0};
        if (CHECK(hosts_read(rows[i].text, strlen(rows[i].text), rows[i].commas, "f", &l, why),
                  "'%s': %s", rows[i].text, why))
            CHECK(strcmp(shown(&l), rows[i].means) == 0, "'%s' is %s", rows[i].text, shown(&l));
        hosts_free(&l);
    }
}

TEST(mistakes_are_told_with_their_line)
{
    static const struct {
        bool commas;
        const char *text, *why;
    } rows[] = {
        {false, "", "f: there is no host in it"},
        {false, "# none\n\n", "f: there is no host in it"},
        {false, "a\nb 0\n", "f:2: '0' is not a number of slots, 1..1024"},
        {false, "a:1025", "f:1: '1025' is not a number of slots, 1..1024"},
        {false, "a 99999999999999999999",
         "f:1: '99999999999999999999' is not a number of slots, 1..1024"},
        {false, "a\n\nb:x", "f:3: 'x' is not a number of slots, 1..1024"},
        {false, "a:", "f:1: '' is not a number of slots, 1..1024"},
        {false, "a 4x", "f:1: '4x' is not a number of slots, 1..1024"},
        {false, "a -1", "f:1: '-1' is not a number of slots, 1..1024"},
        {false, "a slots=", "f:1: '' is not a number of slots, 1..1024"},
        {false, "a slots", "f:1: 'slots' is not a number of slots, 1..1024"},
        {false, "a 4 b", "f:1: '4 b' is not a number of slots, 1..1024"},
        {false, "a:4 4", "f:1: '4 4' is not a number of slots, 1..1024"},
        {false, "fe80::1",
         "f:1: ':1' is not a number of slots, 1..1024; an address of IPv6 stands in brackets: [fe80::1]:4"},
        {false, "-oProxyCommand=x",
         "f:1: '-oProxyCommand=x' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "me@-x", "f:1: 'me@-x' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "me@ 4", "f:1: 'me@ 4' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "@a", "f:1: '@a' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "a@b@c", "f:1: 'a@b@c' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "a$b", "f:1: 'a$b' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "[fe80::1",
         "f:1: '[fe80::1' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "[node]:4",
         "f:1: '[node]:4' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "[]", "f:1: '[]' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "[::1]x", "f:1: '[::1]x' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {false, "a 1000\na 1000", "f:2: a has more than 1024 slots now"},
        {true, "", "f: a host is missing: it is NAME:SLOTS,NAME:SLOTS"},
        {true, "a:4,", "f: a host is missing: it is NAME:SLOTS,NAME:SLOTS"},
        {true, "a,,b", "f: a host is missing: it is NAME:SLOTS,NAME:SLOTS"},
        {true, "a#b", "f: 'a#b' is no host: it is NAME, USER@NAME or [ADDRESS] of IPv6"},
        {true, "a:0", "f: '0' is not a number of slots, 1..1024"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[HOSTS_WHY] = "";
        hosts_list l = {0};
        CHECK(!hosts_read(rows[i].text, strlen(rows[i].text), rows[i].commas, "f", &l, why),
              "'%s' is taken: %s", rows[i].text, shown(&l));
        CHECK(strcmp(why, rows[i].why) == 0, "'%s': %s", rows[i].text, why);
        hosts_free(&l);
    }
}

TEST(the_first_slots_are_taken)
{
    static const char *const means[] = {"a:1", "a:2", "a:2 b:1", "a:2 b:1 c:1", "a:2 b:1 c:2"};
    for (uint32_t n = 1; n <= 5; n++) {
        char why[HOSTS_WHY] = "";
        hosts_list l = {0};
        if (!CHECK(hosts_read("a:2,b,c:3", 9, true, "f", &l, why), "%s", why))
            return;
        hosts_cut(&l, n);
        CHECK(strcmp(shown(&l), means[n - 1]) == 0, "%" PRIu32 ": %s", n, shown(&l));
        CHECK(l.slots == n, "%" PRIu32 " slots", l.slots);
        hosts_free(&l);
    }
}

TEST(a_host_before_a_port)
{
    static const struct {
        const char *name, *address;
    } rows[] = {{"a", "a"}, {"me@a.b", "a.b"}, {"::1", "[::1]"}, {"me@fe80::1", "[fe80::1]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[HOSTS_NAME + 2];
        hosts_address(rows[i].name, text, sizeof text);
        CHECK(strcmp(text, rows[i].address) == 0, "%s: %s", rows[i].name, text);
    }
}

TEST(where_a_host_was_reached)
{
    static const struct {
        const char *connection, *server; /* NULL: nowhere */
    } rows[] = {{"10.0.0.9 50000 10.0.0.1 22", "10.0.0.1"},
                {"2001:db8::9 50000 2001:db8::1 2222", "2001:db8::1"},
                {"10.0.0.9 50000 example.org 22", NULL},
                {"10.0.0.9 50000", NULL},
                {"", NULL}};
    char text[RD_IP_TEXT];
    rd_ip ip;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool known = run_reached_at(rows[i].connection, &ip);
        if (!CHECK(known == (rows[i].server != NULL), "'%s'", rows[i].connection) || !known)
            continue;
        rd_ip_text(&ip, text);
        CHECK(strcmp(text, rows[i].server) == 0, "'%s': %s", rows[i].connection, text);
    }
    /* Nobody else could meet this host there, or it is another host's. */
    static const char *const bad[] = {"127.0.0.1 50000 127.0.0.1 22", "::1 50000 ::1 22",
                                      "fe80::9 50000 fe80::1 22", "192.0.2.9 50000 192.0.2.1 22"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("SSH_CONNECTION", bad[i], 1);
        CHECK(!run_find_host("no.such.host.invalid", text, sizeof text), "%s: %s", bad[i], text);
    }
    unsetenv("SSH_CONNECTION");
    CHECK(!run_find_host("no.such.host.invalid", text, sizeof text), "without ssh");
}

TEST(more_hosts_than_there_may_be)
{
    char *text = malloc(16 * (HOSTS_MOST + 1)), why[HOSTS_WHY] = "";
    size_t length = 0;
    hosts_list l = {0};
    if (!CHECK(text, "no memory"))
        return;
    for (int i = 0; i < HOSTS_MOST; i++)
        length += (size_t)snprintf(text + length, 16, "n%d\n", i);
    if (CHECK(hosts_read(text, length, false, "f", &l, why), "%s", why))
        CHECK(l.count == HOSTS_MOST && l.slots == HOSTS_MOST, "%" PRIu32, l.count);
    hosts_free(&l);
    length += (size_t)snprintf(text + length, 16, "more\n");
    CHECK(!hosts_read(text, length, false, "f", &l, why) &&
              strcmp(why, "f:1025: more than 1024 hosts") == 0,
          "%s", why);
    free(text);
}

/* --- mangled --- */

static void check_taken(const hosts_list *l, const char *text)
{
    uint32_t slots = 0;
    CHECK(l->count >= 1 && l->count <= HOSTS_MOST, "%s: %" PRIu32 " hosts", text, l->count);
    for (uint32_t i = 0; i < l->count; i++) {
        const char *name = l->at[i].name;
        slots += l->at[i].slots;
        CHECK(*name && *name != '-' && strlen(name) < HOSTS_NAME &&
                  strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "._-@:%") == strlen(name),
              "%s: '%s'", text, name);
        CHECK(l->at[i].slots >= 1 && l->at[i].slots <= HOSTS_MOST_SLOTS, "%s: %" PRIu32, text,
              l->at[i].slots);
    }
    CHECK(slots == l->slots, "%s: %" PRIu32 " slots, not %" PRIu32, text, slots, l->slots);
}

TEST(mangled_lists)
{
    static const char *const texts[] = {"a 4\nb:3\nc slots=2\n",
                                        "# a comment\nnode1.example.org\n\n[fe80::1%eth0]:4\n",
                                        "me@node:2\nroot@[::1] 7 # here\n",
                                        "a:4,b:4,[::1]:2",
                                        "a,b,c",
                                        NULL};
    rng r = rng_start();
    const uint32_t rounds = test_sanitized() ? 20000 : 200000;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < rounds && !test_failed(); i++) {
        char *text = mangled_text(&r, texts), why[HOSTS_WHY] = "";
        hosts_list l = {0};
        if (hosts_read(text, strlen(text), rng_below(&r, 2), "file", &l, why)) {
            check_taken(&l, text);
            hosts_cut(&l, 1 + (uint32_t)rng_below(&r, l.slots));
            check_taken(&l, text);
            taken++;
        } else {
            CHECK(strncmp(why, "file:", 5) == 0 && strlen(why) > 10, "%s: '%s'", text, why);
        }
        hosts_free(&l);
        free(text);
    }
    CHECK(taken > rounds / 20, "only %u were taken", taken);
}
