/* doctor_report.c: findings, as a list for people or as JSON for programs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

static const char *const LEVELS[] = {"ok", "note", "problem"};

/* --- collecting --- */

void doctor_add(doctor_list *list, const doctor_finding *finding)
{
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 32;
        doctor_finding *more = realloc(list->at, capacity * sizeof *more);
        if (!more)
            return; /* a finding less */
        list->at = more;
        list->capacity = capacity;
    }
    list->at[list->count++] = *finding;
}

/* Whatever a variable holds, a finding is a line of plain text. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

void doctor_say(doctor_list *list, doctor_level level, const char *about, const char *format, ...)
{
    doctor_finding made = {.level = (int32_t)level};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made.text, sizeof made.text, format, arguments);
    va_end(arguments);
    make_plain(made.text);
    snprintf(made.about, sizeof made.about, "%s", about);
    doctor_add(list, &made);
}

void doctor_advise(doctor_list *list, const char *format, ...)
{
    va_list arguments;
    if (!list->count)
        return;
    char *advice = list->at[list->count - 1].advice;
    va_start(arguments, format);
    vsnprintf(advice, DOCTOR_TEXT, format, arguments);
    va_end(arguments);
    make_plain(advice);
}

uint32_t doctor_problems(const doctor_list *list)
{
    uint32_t problems = 0;
    for (uint32_t i = 0; i < list->count; i++)
        problems += list->at[i].level == DOCTOR_PROBLEM;
    return problems;
}

doctor_count doctor_many(uint64_t count, const char *what)
{
    doctor_count made;
    snprintf(made.text, sizeof made.text, "%" PRIu64 " %s%s", count, what, count == 1 ? "" : "s");
    return made;
}

doctor_count doctor_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    doctor_count made;
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    snprintf(made.text, sizeof made.text, unit && value < 9.95 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return made;
}

/* --- for people --- */

void doctor_print(const doctor_report *r)
{
    const doctor_list *list = &r->list;
    for (uint32_t i = 0; i < list->count; i++) {
        const doctor_finding *f = &list->at[i];
        printf("%-8s %s%s%s\n", LEVELS[f->level], f->who, f->who[0] ? ": " : "", f->text);
        if (f->advice[0])
            printf("         -> %s\n", f->advice);
    }
}

/* --- for programs --- */

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_member(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    print_text(text);
}

void doctor_print_json(const doctor_report *r)
{
    printf("{\n  \"version\": %" PRIu32 ",\n  \"rank\": %" PRIu32 ",\n  \"size\": %" PRIu32
           ",\n  \"problems\": %" PRIu32 ",\n",
           ronda_version(), r->rank, r->size, doctor_problems(&r->list));
    for (uint32_t i = 0; r->facts && i < r->size; i++) {
        printf(i ? ", " : "  \"hosts\": [");
        print_text(r->facts[i].host_name);
    }
    if (r->facts)
        printf("],\n");
    printf("  \"findings\": [");
    for (uint32_t i = 0; i < r->list.count; i++) {
        const doctor_finding *f = &r->list.at[i];
        printf("%s\n    {\"level\": \"%s\"", i ? "," : "", LEVELS[f->level]);
        print_member("about", f->about);
        if (f->who[0])
            print_member("who", f->who);
        print_member("text", f->text);
        if (f->advice[0])
            print_member("advice", f->advice);
        printf("}");
    }
    printf("\n  ]\n}\n");
}
