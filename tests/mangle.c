/* mangle.c: see mangle.h. */
#include "mangle.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 3000 };

static char odd_character(rng *r, bool text)
{
    static const char odd[] = "0123456789=,:.-+ @/%\n\t\x7f\xff\xc3\x28\"'xe";
    const char any = (char)rng_next(r);
    return rng_below(r, 3) ? odd[rng_below(r, sizeof odd - 1)] : text && !any ? '0' : any;
}

/* Makes room for n bytes at a place; how many there is room for. */
static size_t open_gap(char *bytes, size_t *length, size_t capacity, size_t at, size_t n)
{
    n = n < capacity - *length ? n : capacity - *length;
    memmove(bytes + at + n, bytes + at, *length - at);
    *length += n;
    return n;
}

static void mangle_once(rng *r, char *bytes, size_t *length, size_t capacity, bool text)
{
    const size_t at = rng_below(r, *length + 1), rest = *length - at;
    size_t n = rest ? 1 + rng_below(r, rest) : 0;
    switch (rng_below(r, 7)) {
    case 0: /* a bit */
        if (rest)
            bytes[at] = (char)(bytes[at] ^ 1 << rng_below(r, 8));
        break;
    case 1: /* a byte */
        if (rest)
            bytes[at] = odd_character(r, text);
        break;
    case 2: /* a part is missing */
        memmove(bytes + at, bytes + at + n, rest - n);
        *length -= n;
        break;
    case 3: /* a part is there twice */
        n = open_gap(bytes, length, capacity, at, n);
        memmove(bytes + at, bytes + at + n, n);
        break;
    case 4: /* a run of one character */
        n = open_gap(bytes, length, capacity, at, rng_below(r, 8) ? 1 : rng_below(r, 700));
        memset(bytes + at, odd_character(r, text), n);
        break;
    case 5: /* the rest is missing */
        *length = at;
        break;
    default: /* a character more */
        if (open_gap(bytes, length, capacity, at, 1))
            bytes[at] = odd_character(r, text);
    }
}

size_t mangle(rng *r, char *bytes, size_t length, size_t capacity, bool text)
{
    for (uint64_t times = 1 + rng_below(r, 4); times > 0; times--)
        mangle_once(r, bytes, &length, capacity, text);
    for (size_t i = 0; text && i < length; i++)
        if (!bytes[i])
            bytes[i] = '?';
    return length;
}

char *mangled_text(rng *r, const char *const texts[])
{
    size_t count = 0;
    while (texts[count])
        count++;
    char work[LONGEST];
    const char *from = texts[rng_below(r, count)];
    size_t length = strlen(from);
    memcpy(work, from, length);
    if (rng_below(r, 8))
        length = mangle(r, work, length, sizeof work, true);
    char *made = malloc(length + 1);
    if (!made)
        abort();
    memcpy(made, work, length);
    made[length] = 0;
    return made;
}
