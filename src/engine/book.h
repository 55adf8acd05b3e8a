/* book.h: things by two words, such as peer and tag.  Of those entered under the same words, and of all,
 * the oldest is found first.  An entry is a part of what it stands for: entering takes no memory. */
#ifndef RD_BOOK_H
#define RD_BOOK_H

#include <stdint.h>

typedef struct rd_book rd_book;
typedef struct rd_entry rd_entry;

struct rd_entry {
    rd_book *book;            /* NULL: it is in none */
    rd_entry *next, *before;  /* of all, oldest first */
    rd_entry *behind, *ahead; /* on its page, oldest first */
    uint32_t peer, word;
    uint64_t order; /* of entering */
};

typedef struct {
    rd_entry *first, *last;
} rd_page;

enum { RD_PAGES = 8 }; /* at first; a power of two */
struct rd_book {
    rd_entry *first, *last;
    rd_page few[RD_PAGES], *many; /* many: NULL, or those that are in use */
    uint32_t pages, count;        /* pages: a power of two; 0: RD_PAGES */
    uint64_t orders;
};

/* A book of zeros is empty.  The entry must be in none. */
void rd_book_enter(rd_book *b, rd_entry *entry, uint32_t peer, uint32_t word);
void rd_book_strike(rd_entry *entry); /* in no book: nothing happens */
/* The oldest under these words; NULL: there is none */
rd_entry *rd_book_find(const rd_book *b, uint32_t peer, uint32_t word);
void rd_book_free(rd_book *b); /* its pages; it is empty */

#endif
