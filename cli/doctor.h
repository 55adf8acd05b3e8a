/* doctor.h: what `ronda doctor` finds, and the parts that look for it.
 *
 * Each part looks at one thing and adds what it found to a list.  A problem has advice: what the user can
 * do about it.  Alone the list is that of this machine; in a world rank 0 gathers the lists of all. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "comm/socket.h"
#include "ronda.h"
#include "transport/place.h"

/* --- findings (doctor_report.c) --- */

typedef enum { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_PROBLEM } doctor_level;

enum { DOCTOR_TEXT = 480, DOCTOR_ABOUT = 16, DOCTOR_WHO = 96 };

typedef struct {
    int32_t level;
    char about[DOCTOR_ABOUT]; /* "cores", "memory": a word for programs */
    char who[DOCTOR_WHO];     /* "host a", "rank 3 (host a)"; "": everybody, or this machine */
    char text[DOCTOR_TEXT];
    char advice[DOCTOR_TEXT]; /* "": none */
} doctor_finding;

typedef struct {
    doctor_finding *at;
    uint32_t count, capacity;
} doctor_list;

void doctor_say(doctor_list *list, doctor_level level, const char *about, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What to do about what was said last. */
void doctor_advise(doctor_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_add(doctor_list *list, const doctor_finding *finding);
uint32_t doctor_problems(const doctor_list *list);

/* "1 core", "2 cores" */
typedef struct {
    char text[32];
} doctor_count;
doctor_count doctor_many(uint64_t count, const char *what);
/* "512 bytes", "1.5 GiB" */
doctor_count doctor_bytes(uint64_t bytes);

/* What the report is about. */
typedef struct {
    doctor_list list;
    uint32_t size, rank;              /* of the world; size 1: this machine alone */
    const struct doctor_facts *facts; /* [size], or NULL */
    bool json;
} doctor_report;

void doctor_print(const doctor_report *report);
void doctor_print_json(const doctor_report *report);

/* --- the command (doctor_args.c) --- */

typedef struct {
    uint32_t ranks; /* 0: not said */
    double seconds;
    bool json;
} doctor_request;

int doctor_read(int count, char **arguments, doctor_request *out);

/* --- this machine --- */

/* doctor_environment.c: variables.  *size: of the world that they describe; false: it makes no sense to join */
bool doctor_environment(doctor_list *list, uint32_t *rank, uint32_t *size);

/* doctor_cores.c, doctor_memory.c, doctor_kernel.c */
void doctor_cores(doctor_list *list, uint32_t ranks);
void doctor_load(doctor_list *list, uint32_t ranks); /* what other programs use of the cores */
void doctor_memory(doctor_list *list, uint32_t ranks);
void doctor_files(doctor_list *list, uint32_t ranks);
void doctor_kernel(doctor_list *list);

/* doctor_net.c */
/* Interfaces: which are offered to other hosts.  place: those, or NULL */
void doctor_interfaces(doctor_list *list, rd_place *place);
/* first: is this rank 0, or nobody yet? */
bool doctor_address(doctor_list *list, const char *text, bool first);
/* Of the interface with this address; 0: not known */
uint32_t doctor_mtu(const rd_ip *ip);

/* --- the world --- */

/* What each rank tells of itself. */
typedef struct doctor_facts {
    uint64_t host; /* as in rd_place */
    uint32_t version, quota, online, mtu, host_index;
    int32_t pid;
    uint16_t port; /* where it can be probed; 0: it cannot */
    cpu_set_t cpus;
    rd_place place;
    char host_name[RD_HOST_NAME + 48]; /* as the report calls it */
    char timeout[24], algo[128], transport[16];
} doctor_facts;

/* doctor_world.c: joins and looks; prints on rank 0.  What the process ends with. */
int doctor_world(doctor_list *own, const doctor_request *request, uint32_t rank, uint32_t size);

/* doctor_compare.c: what the facts of all ranks say together */
void doctor_compare(doctor_list *list, const doctor_facts facts[], uint32_t size);

/* doctor_probe.c: can this rank connect to all hosts?  Opens a listener, before facts are told; -1: none */
int doctor_probe_open(doctor_facts *own);
void doctor_probe(doctor_list *list, const doctor_facts facts[], uint32_t rank, uint32_t size,
                  int listener, double seconds);
void doctor_rank_name(const doctor_facts facts[], uint32_t rank, char *text, size_t capacity);

#endif
