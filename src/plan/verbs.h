/* verbs.h: THE table of verbs, which are the kinds of steps.
 *
 * A row says in which lane a step of this verb is, what it does with its ranges, what it costs, and how
 * it is printed and drawn.  Sealing, prices, printing, drawing and the proof go by the row; none of them
 * has a line for a verb of its own.  Two things are functions, found by the verb: how a local step runs
 * (engine/local.c) and what it makes of terms (proof/made.c).
 *
 *     row here --> hazards, seal, choose, print, draw, proof
 *     rd_run_NAME()   in engine/local.c
 *     rd_make_NAME()  in proof/made.c
 *
 * A step has two ranges, `from` and `to`, of one length; or, if the row says RD_LISTED, as many ranges as
 * it likes, of any lengths, which rd_apply() was given (plan.h). */
#ifndef RD_VERBS_H
#define RD_VERBS_H

#include <stdbool.h>
#include <stdint.h>

/* Lanes: to a peer, from a peer, of this rank alone */
enum { RD_LANE_TO, RD_LANE_FROM, RD_LANE_HERE };
/* What a step does with a range; RD_UPDATES: both */
enum { RD_UNUSED, RD_READS, RD_WRITES, RD_UPDATES };
enum {
    RD_FOLDS = 1,   /* by the op of the call, two operands or more */
    RD_SCALES = 2,  /* may divide what it makes in the same pass: rd_step.scale */
    RD_GROUPED = 4, /* one message of each peer, and one step in all: rd_group */
    RD_LISTED = 8   /* its ranges are in the plan's list of accesses */
};

/*  X(verb, name, lane, from, to, flags, copied, folded, sign, colour, about)
 *
 *   copied, folded  passes over its bytes that cost rd_facts.copy_ns and fold_ns a byte.  Its bytes are
 *                   those of `to`; of a step with listed ranges, of all of them
 *   sign, colour    of its arrow in a drawing; local steps have none
 *   about           what is done, for the legend of a drawing
 *
 * The engine runs messages itself (run.c, straight.c); a new local verb is one more row at the end. */
#define RD_MESSAGE_VERBS(X)                                                                        \
    X(SEND, send, RD_LANE_TO, RD_READS, RD_UNUSED, 0, 0, 0, 0, "", "")                             \
    X(RECV, recv, RD_LANE_FROM, RD_UNUSED, RD_WRITES, 0, 1, 0, '-', "#0072b2", "received")         \
    X(FOLD, fold, RD_LANE_FROM, RD_READS, RD_WRITES, RD_FOLDS | RD_SCALES, 0, 2, '+', "#d55e00",   \
      "folded with what the receiver has")                                                         \
    X(FOLD_MANY, fold_many, RD_LANE_FROM, RD_READS, RD_WRITES, RD_FOLDS | RD_SCALES | RD_GROUPED,  \
      0, 1, '*', "#009e73", "folded with all others in one pass")

#define RD_LOCAL_VERBS(X)                                                                          \
    X(COPY, copy, RD_LANE_HERE, RD_READS, RD_WRITES, 0, 1, 0, 0, "", "from buffer to buffer")      \
    X(MERGE, merge, RD_LANE_HERE, RD_READS, RD_UPDATES, RD_FOLDS | RD_SCALES, 0, 2, 0, "",         \
      "one range folded into another")                                                             \
    X(SCALE, scale, RD_LANE_HERE, RD_UNUSED, RD_UPDATES, 0, 0, 2, 0, "",                           \
      "divided by the number of ranks")

#define RD_VERB_ENUM(verb, ...) RD_##verb,
enum { RD_MESSAGE_VERBS(RD_VERB_ENUM) RD_LOCAL_VERBS(RD_VERB_ENUM) RD_VERBS };
#undef RD_VERB_ENUM

typedef struct {
    const char *name;
    uint8_t lane, from, to, flags;
    uint8_t copied, folded;
    char sign;
    const char *color, *about;
} rd_verb;

#define RD_VERB_ROW(verb, name, lane, from, to, flags, copied, folded, sign, color, about)         \
    {#name, lane, from, to, flags, copied, folded, sign, color, about},

/* Both are alone in verbs.c: a program that defines them itself has a table of its own. */
extern const rd_verb rd_verbs[];
extern const uint32_t rd_verb_count;

#endif
