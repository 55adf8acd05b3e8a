/* share_failure.c: when a world in one mapping fails: who is woken, and who is waited for. */
#include "transport/share.h"

#include "base/clock.h"

#include <sched.h>

void rd_share_abort(rd_link *l, const rd_error *cause)
{
    rd_member *m = rd_member_of(l);
    rd_control_raise(&m->head->failure, cause);
    rd_wake_all(m);
}

/* A rank inside a call may be reading our bytes or storing into them.  It stops at its next step, for
 * it looks at the alarm; one that enters later looks before it touches anything.  The fence makes
 * sure that whoever has not seen the alarm is seen to be inside. */
void rd_share_quiesce(rd_link *l, uint64_t until_ns, uint64_t soon_ns)
{
    rd_error cause = {0};
    rd_control_cause(l, &cause);
    rd_member_of(l)->given_up = cause.status != RONDA_EMISMATCH; /* then earlier calls go on */
    rd_everyone_fence(rd_member_of(l));
    for (uint32_t r = 0; r < l->size; r++)
        while (r != l->rank) {
            const rd_presence p = rd_control_presence(l, r);
            if (!p.inside || p.dead ||
                rd_now_ns() >= (p.running && soon_ns < until_ns ? soon_ns : until_ns))
                break;
            sched_yield();
        }
}
