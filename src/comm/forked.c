/* forked.c: communicators in a process that was forked from the rank's.
 *
 * Programs fork helpers, such as those that load data, in the middle of everything.  Such a process has a copy of
 * every communicator, and if it used one it would read and write its parent's queues and sockets.  It is no rank:
 * all calls are refused.  Closing gives back what the process itself has of it, descriptors and memory, and tells
 * nobody.
 *
 * When a process is forked while another thread is inside a call, the copy is of something half changed.  Then
 * nothing is taken apart: descriptors and mappings go, as far as they do not change while a communicator is
 * open, and the rest stays until the process ends. */
#include "comm/comm.h"

#include "base/mem.h"

ronda_status rd_comm_refuse(ronda_comm *c, const char *function)
{
    return rd_comm_fail(
        c, RONDA_EINVAL,
        "%s: this process was forked from that of the rank (pid %d) and is no rank; "
        "it can ronda_close() its copy of the communicator, and then ronda_init() "
        "a world of its own",
        function, (int)c->pid);
}

/* In what is private nothing is half changed: no thread was inside when the process was forked.  Nobody else
 * ever leaves the lock. */
static bool is_whole(const ronda_comm *c)
{
    return !c->siblings->inside &&
           (!c->progress_thread || rd_progress_thread_try(c->progress_thread));
}

/* It is remembered, so that whoever looks for leaks finds none. */
static void abandon(ronda_comm *c)
{
    static _Atomic(ronda_comm *) all;
    for (ronda_plan *p = c->plans; p; p = p->next) {
        p->comm = NULL;
        p->prepared[0] = p->prepared[1] = NULL;
    }
    c->plans = NULL;
    rd_comm_free_all(c);
    if (c->link->transport->abandon)
        c->link->transport->abandon(c->link);
    c->abandoned = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &c->abandoned, c))
        ;
}

void rd_comm_close_inherited(ronda_comm *c)
{
    const bool whole = is_whole(c);
    if (c->listens)
        rd_dump_signal_close_inherited();
    if (!whole) {
        abandon(c);
        return;
    }
    rd_exit_drop(&c->exits);
    if (c->progress_thread)
        rd_progress_thread_forget(c->progress_thread);
    rd_engine_free(c->engine);
    rd_comm_dismantle(c);
}
