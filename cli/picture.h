/* picture.h: the plans of all ranks as a picture: ranks across, rounds down, an arrow per message.
 *
 *     plans of all ranks --cli_picture_make--> picture --cli_draw_text, cli_draw_svg--> to be seen
 *
 * A picture knows who sends what to whom in which round, and on which row of the round an arrow
 * lies, so that no two overlap.  What a row looks like is up to those who draw it. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include <stdio.h>

#include "plan.h"
#include "plan/print.h"

/* More ranks make a picture that nobody can read. */
enum { CLI_TEXT_RANKS = 16, CLI_SVG_RANKS = 32 };

typedef struct {
    uint32_t from, to; /* ranks */
    uint32_t round, row;
    const rd_step *send, *take; /* the step of either rank; take: of a fold_many the leader */
} cli_arrow;

/* Steps of one verb that a rank does by itself, one after the other. */
typedef struct {
    uint32_t rank, round, row;
    bool after;                 /* it waits for messages of its round; else it stands above them */
    const rd_step *first, *end; /* in the rank's plan */
} cli_mark;

/* A round from top to bottom: marks, arrows, marks that come after. */
typedef struct {
    uint32_t before_rows, arrow_rows, after_rows; /* all 0: nothing happens in it */
} cli_band;

typedef struct {
    const cli_plan_request *request;
    uint32_t size, rounds;
    rd_plan **plans;   /* per rank, each in one chunk */
    cli_arrow *arrows; /* by round */
    cli_mark *marks;   /* by rank */
    cli_band *bands;   /* per round */
    uint32_t arrow_count, mark_count;
    uint32_t chunks; /* that the call would be cut into */
    uint32_t verbs;  /* bit v: somebody takes a message, or works alone, by verb v */
    uint32_t labels; /* length of the longest label */
} cli_picture;

/* Whose plans: those of request->algorithm.  false: no memory.  Either way it is to be freed. */
bool cli_picture_make(const cli_plan_request *request, cli_picture *out);
void cli_picture_free(cli_picture *p);

/* What pictures say, with or without words, in the form of rd_plan_print(). */
enum { CLI_LABEL = 80, CLI_SENTENCE = 600 };
void cli_picture_title(const cli_picture *p, char text[CLI_SENTENCE]);
/* "" unless a call of this size is cut into chunks */
void cli_picture_note(const cli_picture *p, char text[CLI_SENTENCE]);
uint8_t cli_taken_by(const cli_arrow *a); /* the verb; one that nobody takes is drawn as received */
void cli_arrow_label(const cli_arrow *a, bool with_buffer, char text[CLI_LABEL]);
void cli_arrow_sentence(const cli_picture *p, const cli_arrow *a, char text[CLI_SENTENCE]);
void cli_mark_label(const cli_mark *m, char text[CLI_LABEL]);
void cli_mark_sentence(const cli_picture *p, const cli_mark *m, char text[CLI_SENTENCE]);

/* draw_text.c, draw_svg.c; whether it could be written is for the caller to see. */
void cli_draw_text(FILE *to, const cli_picture *p);
void cli_draw_svg(FILE *to, const cli_picture *p);

#endif
