/* plan.h: the request of `ronda plan`. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "host_map.h"
#include "plan/choose.h"

typedef struct {
    rd_shape shape;
    ronda_type type;
    ronda_op op;
    uint64_t segment_bytes;        /* of a message; 0: plans are never cut */
    bool cut;                      /* and it was given */
    const char *name;              /* of the algorithm, as it was given */
    const rd_algorithm *algorithm; /* NULL: whatever would be chosen */
    const rd_algorithm *forced;    /* by RONDA_ALGO; NULL: none */
    cli_host_map map;              /* who is on which host; cli_plan() makes shape.hosts of it */
    bool all_ranks, summary, list;
    bool threads;    /* prices are those of ranks as threads */
    bool draw;       /* a picture of all ranks, as text */
    const char *svg; /* the same as SVG: the file, "-" for standard output; NULL: none */
} cli_plan_request;

/* plan_args.c: reads the arguments; CLI_OK, or the user was told. */
int cli_plan_read(int count, char **arguments, cli_plan_request *out);

/* draw.c: the pictures of request->algorithm, as text or as a file. */
int cli_draw(const cli_plan_request *request);

/* choice.c: which algorithm is cheapest for a shape, the others' prices, and why. */
typedef struct {
    rd_facts facts;
    uint64_t class_count; /* elements by which it was chosen, if it is not the cheapest; else 0 */
    rd_price prices[RD_MOST_CANDIDATES]; /* cheapest first */
    uint32_t count;
} cli_choice;

bool cli_choose(const cli_plan_request *request, cli_choice *out); /* false: no memory */
void cli_choice_print(const cli_choice *choice, const cli_plan_request *request);

#endif
