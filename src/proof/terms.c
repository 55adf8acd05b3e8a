/* terms.c: hash-consed terms.  See terms.h. */
#include "proof/terms.h"

#include <string.h>

#include "base/mem.h"

/* A node with the first bit is a list, with both one that begins with a tag. */
static const uint32_t list_bit = RD_MOST_TERMS, tag_bit = RD_MOST_TERMS / 2;

static uint32_t list_length(rd_term_node node)
{
    return node.right & (tag_bit - 1);
}

bool rd_terms_start(rd_terms *t, uint32_t ranks, uint64_t per_rank, uint64_t states)
{
    *t = (rd_terms){0};
    const uint32_t most = (RD_MOST_TERMS - 1) / 2 / ranks;
    if (per_rank > most || states > most - per_rank)
        return false;
    t->per_rank = (uint32_t)per_rank;
    t->states = (uint32_t)states;
    t->brought = ranks * t->per_rank;
    t->leaves = t->brought + ranks * t->states;
    return true;
}

void rd_terms_free(rd_terms *t)
{
    rd_free(t->nodes);
    rd_free(t->table);
    rd_free(t->lists);
    *t = (rd_terms){0};
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    uint64_t x = ((uint64_t)hash << 32 | value) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    return (uint32_t)(x >> 16) ^ (uint32_t)(x >> 40);
}

static uint32_t hash_node(const rd_terms *t, rd_term_node node)
{
    if (!(node.right & list_bit))
        return mix(mix(1, node.left), node.right);
    uint32_t hash = node.right;
    for (uint32_t i = 0; i < list_length(node); i++)
        hash = mix(hash, t->lists[node.left + i]);
    return hash;
}

static bool same_node(const rd_terms *t, rd_term_node a, rd_term_node b)
{
    if (a.right != b.right)
        return false;
    if (a.left == b.left || !(a.right & list_bit))
        return a.left == b.left;
    return memcmp(&t->lists[a.left], &t->lists[b.left], list_length(a) * sizeof *t->lists) == 0;
}

/* The place of the node in the table, or the free place where it belongs. */
static uint32_t place_of(const rd_terms *t, rd_term_node node)
{
    uint32_t i = hash_node(t, node) & (t->table_size - 1);
    while (t->table[i] && !same_node(t, t->nodes[t->table[i] - 1], node))
        i = (i + 1) & (t->table_size - 1);
    return i;
}

static bool make_room(rd_terms *t)
{
    if (t->count < t->capacity)
        return true;
    if (t->leaves + 2ull * t->count + 256 >= RD_MOST_TERMS)
        return false;
    const uint32_t larger = t->capacity ? 2 * t->capacity : 128;
    rd_term_node *nodes = rd_realloc(t->nodes, larger * sizeof *nodes);
    if (nodes)
        t->nodes = nodes;
    uint32_t *table = rd_alloc(2 * (size_t)larger * sizeof *table);
    if (!nodes || !table) {
        rd_free(table);
        return false;
    }
    rd_free(t->table);
    t->capacity = larger;
    t->table = table;
    t->table_size = 2 * larger;
    for (uint32_t i = 0; i < t->count; i++)
        t->table[place_of(t, t->nodes[i])] = i + 1;
    return true;
}

static rd_term intern(rd_terms *t, rd_term_node node)
{
    if (t->failed || !make_room(t)) {
        t->failed = true;
        return RD_GARBAGE;
    }
    const uint32_t place = place_of(t, node);
    if (!t->table[place]) {
        t->nodes[t->count++] = node;
        t->table[place] = t->count;
    }
    return t->leaves + t->table[place];
}

rd_term rd_term_leaf(const rd_terms *t, uint32_t rank, uint64_t element)
{
    return 1 + rank * t->per_rank + (uint32_t)element;
}

rd_term rd_term_state(const rd_terms *t, uint32_t rank, uint64_t element)
{
    return 1 + t->brought + rank * t->states + (uint32_t)element;
}

rd_term rd_term_fold(rd_terms *t, rd_term left, rd_term right)
{
    if (left == RD_GARBAGE || right == RD_GARBAGE)
        return RD_GARBAGE;
    return intern(t, (rd_term_node){left, right});
}

rd_term rd_term_scale(rd_terms *t, rd_term term)
{
    return term == RD_GARBAGE ? RD_GARBAGE : intern(t, (rd_term_node){term, 0});
}

/* The list is written behind the others first, where it can be hashed and compared, and stays there
 * only if it is new.  tag: NULL, or what it begins with. */
static rd_term intern_list(rd_terms *t, const uint32_t *tag, const rd_term operands[],
                           uint32_t count)
{
    const uint32_t length = count + (tag != NULL);
    for (uint32_t i = 0; i < count; i++)
        if (operands[i] == RD_GARBAGE)
            return RD_GARBAGE;
    if (t->list_count + length > t->list_capacity) {
        const size_t larger = 2 * t->list_capacity + length + 64;
        uint32_t *lists = larger < UINT32_MAX ? rd_realloc(t->lists, larger * sizeof *lists) : NULL;
        if (!lists) {
            t->failed = true;
            return RD_GARBAGE;
        }
        t->lists = lists;
        t->list_capacity = larger;
    }
    if (tag)
        t->lists[t->list_count] = *tag;
    memcpy(&t->lists[t->list_count + (tag != NULL)], operands, count * sizeof *operands);
    const uint32_t before = t->count;
    const rd_term term =
        intern(t, (rd_term_node){(uint32_t)t->list_count, length | list_bit | (tag ? tag_bit : 0)});
    if (t->count > before)
        t->list_count += length;
    return term;
}

rd_term rd_term_many(rd_terms *t, const rd_term operands[], uint32_t count)
{
    if (count <= 2) /* rounded once in any case */
        return count == 1 ? operands[0] : rd_term_fold(t, operands[0], operands[1]);
    return intern_list(t, NULL, operands, count);
}

rd_term rd_term_made(rd_terms *t, uint32_t tag, const rd_term operands[], uint32_t count)
{
    return intern_list(t, &tag, operands, count);
}

int rd_term_kind(const rd_terms *t, rd_term term)
{
    if (term == RD_GARBAGE)
        return RD_TERM_GARBAGE;
    if (term <= t->leaves)
        return term <= t->brought ? RD_TERM_LEAF : RD_TERM_STATE;
    const rd_term_node *node = &t->nodes[term - t->leaves - 1];
    if (node->right & list_bit)
        return node->right & tag_bit ? RD_TERM_MADE : RD_TERM_MANY;
    return node->right ? RD_TERM_FOLD : RD_TERM_SCALE;
}

uint32_t rd_term_rank(const rd_terms *t, rd_term leaf)
{
    return leaf <= t->brought ? (leaf - 1) / t->per_rank : (leaf - 1 - t->brought) / t->states;
}

uint32_t rd_term_element(const rd_terms *t, rd_term leaf)
{
    return leaf <= t->brought ? (leaf - 1) % t->per_rank : (leaf - 1 - t->brought) % t->states;
}

uint32_t rd_term_tag(const rd_terms *t, rd_term made)
{
    return t->lists[t->nodes[made - t->leaves - 1].left];
}

const rd_term *rd_term_operands(const rd_terms *t, rd_term term, rd_term pair[2], uint32_t *count)
{
    const rd_term_node *node = &t->nodes[term - t->leaves - 1];
    if (node->right & list_bit) {
        const bool tagged = node->right & tag_bit;
        *count = list_length(*node) - tagged;
        return &t->lists[node->left + tagged];
    }
    pair[0] = node->left;
    pair[1] = node->right;
    *count = node->right ? 2 : 1;
    return pair;
}
