/* forest.c: see forest.h. */
#include "forest.h"

void forest_draw(rng *r, forest *f, uint32_t size)
{
    f->size = size;
    f->seed = rng_next(r);
    for (uint32_t i = 1; i < FOREST_NODES; i++) {
        f->nodes[i].parent = (uint32_t)rng_below(r, i);
        for (uint32_t k = 0; k < FOREST_RANKS; k++) {
            f->nodes[i].color[k] = (int)rng_below(r, 4) - 1;
            f->nodes[i].key[k] = (int)rng_below(r, 5) - 2;
        }
    }
}

/* The slow and obvious way. */
place forest_place(const forest *f, uint32_t n, uint32_t world_rank)
{
    if (n == 0) {
        place p = {.rank = world_rank, .size = f->size};
        for (uint32_t r = 0; r < f->size; r++)
            p.members[r] = r;
        return p;
    }
    const node *d = &f->nodes[n];
    const place above = forest_place(f, d->parent, world_rank);
    if (above.part < 0 || d->color[above.rank] < 0)
        return (place){.part = -1};
    place p = {.part = above.part * 5 + d->color[above.rank]};
    for (int key = -2; key <= 2; key++)
        for (uint32_t r = 0; r < above.size; r++)
            if (d->color[r] == d->color[above.rank] && d->key[r] == key) {
                if (above.members[r] == world_rank)
                    p.rank = p.size;
                p.members[p.size++] = above.members[r];
            }
    return p;
}

bool forest_split(const forest *f, uint32_t n, uint32_t world_rank, ronda_comm *comms[])
{
    const node *d = &f->nodes[n];
    const place above = forest_place(f, d->parent, world_rank), p = forest_place(f, n, world_rank);
    ronda_comm *parent = comms[d->parent];
    comms[n] = NULL;
    if (!parent)
        return true;
    const ronda_status status =
        ronda_split(parent, d->color[above.rank], d->key[above.rank], &comms[n]);
    if (!CHECK(status == RONDA_OK, "%s", ronda_last_error(parent)))
        return false;
    const bool right =
        comms[n] ? ronda_rank(comms[n]) == p.rank && ronda_size(comms[n]) == p.size : p.part < 0;
    return CHECK(right, "node %u: rank %u should be %u of %u", n, world_rank, p.rank, p.size);
}
