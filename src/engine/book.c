/* book.c: a hash of lists that are in the order of entering.  It grows when its pages get long; where there
 * is no memory for that they stay long, and nothing fails. */
#include "engine/book.h"

#include "base/mem.h"

#include <assert.h>
#include <stddef.h>

_Static_assert((RD_PAGES & (RD_PAGES - 1)) == 0, "a page is the low bits of a hash");

static uint32_t page_count(const rd_book *b)
{
    return b->many ? b->pages : RD_PAGES;
}

static uint32_t page_number(uint32_t pages, uint32_t peer, uint32_t word)
{
    const uint64_t hash = ((uint64_t)peer << 32 | word) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((hash ^ hash >> 29) >> 24) & (pages - 1);
}

static void append(rd_page *p, rd_entry *entry)
{
    entry->behind = NULL;
    entry->ahead = p->last;
    *(p->last ? &p->last->behind : &p->first) = entry;
    p->last = entry;
}

static rd_page *page_of(rd_book *b, uint32_t peer, uint32_t word)
{
    return &(b->many ? b->many : b->few)[page_number(page_count(b), peer, word)];
}

static void grow(rd_book *b)
{
    const uint32_t pages = 4 * page_count(b);
    rd_page *many = rd_alloc(pages * sizeof *many);
    if (!many)
        return;
    rd_free(b->many);
    b->many = many;
    b->pages = pages;
    for (rd_entry *entry = b->first; entry; entry = entry->next)
        append(page_of(b, entry->peer, entry->word), entry);
}

void rd_book_enter(rd_book *b, rd_entry *entry, uint32_t peer, uint32_t word)
{
    assert(!entry->book && !b->first == !b->count && !b->last == !b->count);
    if (b->count++ / 2 >= page_count(b))
        grow(b);
    entry->book = b;
    entry->peer = peer;
    entry->word = word;
    entry->order = b->orders++;
    entry->next = NULL;
    entry->before = b->last;
    *(b->last ? &b->last->next : &b->first) = entry;
    b->last = entry;
    append(page_of(b, peer, word), entry);
}

void rd_book_strike(rd_entry *entry)
{
    rd_book *b = entry->book;
    if (!b)
        return;
    rd_page *p = page_of(b, entry->peer, entry->word);
    assert(b->count && (entry->before ? entry->before->next : b->first) == entry);
    assert((entry->ahead ? entry->ahead->behind : p->first) == entry);
    *(entry->before ? &entry->before->next : &b->first) = entry->next;
    *(entry->next ? &entry->next->before : &b->last) = entry->before;
    *(entry->ahead ? &entry->ahead->behind : &p->first) = entry->behind;
    *(entry->behind ? &entry->behind->ahead : &p->last) = entry->ahead;
    entry->book = NULL;
    b->count--;
}

rd_entry *rd_book_find(const rd_book *b, uint32_t peer, uint32_t word)
{
    rd_entry *entry = page_of((rd_book *)b, peer, word)->first;
    while (entry && (entry->peer != peer || entry->word != word))
        entry = entry->behind;
    return entry;
}

void rd_book_free(rd_book *b)
{
    assert(!b->first && !b->count);
    rd_free(b->many);
    b->many = NULL;
}
