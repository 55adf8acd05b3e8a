# What the tests of `ronda run` share; to be sourced after lib.sh.
#
# Every program that is started has a mark in its environment, RONDA_TEST_MARK, by which processes that
# were left behind are found.  Times are limits, far beyond what is needed.

ronda=$PWD/$BUILD/ronda
limit=60 # seconds for one job
unset RONDA_KEY RONDA_RANK RONDA_SIZE RONDA_ADDR TMPDIR || :
mkdir "$tmp/runtime"
export XDG_RUNTIME_DIR="$tmp/runtime"
export RONDA_TEST_MARK="launch-$$"
# Should this script itself fail, what it tests must not stay either.
trap 'for process in $(marked); do kill -KILL "$process" 2>/dev/null || :; done; rm -rf "$tmp"' EXIT

# --- what the tests are made of ---

# complain WORDS...: for the list of complaints.
complain() {
    echo "$*"
    sed 's/^/    /' "$tmp/err" | head -n 5
}

# Processes of the job that is being tested, by the mark that they have inherited.
marked() {
    grep -lzx "RONDA_TEST_MARK=$RONDA_TEST_MARK-job" /proc/[0-9]*/environ 2>/dev/null |
        sed 's|/proc/\([0-9]*\)/.*|\1|' || :
}

# Waits until a command succeeds.
await() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt $((limit * 20)) ] || return 1
        sleep 0.05
    done
}

none_marked() {
    [ -z "$(marked)" ]
}

lines_in() {
    [ "$(cat "$1" 2>/dev/null | wc -l)" -ge "$2" ]
}

gone() {
    ! kill -0 "$1" 2>/dev/null
}

# nothing_left [WAIT]: neither processes nor directories; the one who was killed needs time to be missed.
nothing_left() {
    [ -z "${1-}" ] || await none_marked || :
    none_marked || {
        complain "$what: processes are left:"
        for process in $(marked); do
            tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null || :
            echo
            kill -KILL "$process" 2>/dev/null || :
        done
    }
    [ -z "${1-}" ] || await rmdir_would_do || :
    rmdir_would_do || {
        complain "$what: left in the directory: $(ls "$XDG_RUNTIME_DIR")"
        rm -rf "$XDG_RUNTIME_DIR"/*
    }
}

rmdir_would_do() {
    [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
}

# job ARGUMENTS...: ronda run, with the mark and a limit.
job() {
    RONDA_TEST_MARK="$RONDA_TEST_MARK-job" timeout -k 5 "$limit" "$ronda" run "$@"
}

# run ARGUMENTS...: a job; sets status, leaves what was said in $tmp/out and $tmp/err.
run() {
    what="ronda run $*"
    status=0
    job "$@" >"$tmp/out" 2>"$tmp/err" <"${input:-/dev/null}" || status=$?
    nothing_left
}

# start ARGUMENTS...: the same in the background, in a session of its own, with signals as a terminal's
# shell has them; sets launcher.
start() {
    what="ronda run $*"
    : >"$tmp/out" # what an earlier one said must not be taken for this one's
    RONDA_TEST_MARK="$RONDA_TEST_MARK-job" env --default-signal=INT,QUIT setsid "$ronda" run "$@" \
        >"$tmp/out" 2>"$tmp/err" </dev/null &
    launcher=$!
}

# finish_job [wait]: waits for what was started, and not for ever; sets status.
finish_job() {
    await gone_or_zombie "$launcher" || {
        complain "$what: does not end"
        kill -KILL "$launcher"
    }
    status=0
    wait "$launcher" 2>/dev/null || status=$?
    nothing_left "${1-}"
}

gone_or_zombie() {
    gone "$1" || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

ended() {
    [ "$status" -eq "$1" ] || complain "$what: exit status $status, not $1"
}

# one_line PATTERN: standard error has one line, and it is like this.
one_line() {
    [ "$(wc -l <"$tmp/err")" -eq 1 ] || complain "$what: not one line on standard error"
    grep -qE -e "$1" "$tmp/err" || complain "$what: does not say '$1'"
}

says() { # LINE...
    printf '%s\n' "$@" >"$tmp/wanted"
    cmp -s "$tmp/wanted" "$tmp/out" || {
        complain "$what: says another thing:"
        diff "$tmp/wanted" "$tmp/out" | head -n 10
    }
}

quiet() {
    [ ! -s "$tmp/err" ] || complain "$what: says something on standard error"
}

# The guard is the launcher's child, and the keeper is the guard's.
guard_of() {
    grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | sed 's|/proc/\([0-9]*\)/.*|\1|' | head -n 1
}

keeper_of() {
    guard_of "$(guard_of "$1")"
}

in_state() { # STATE PID...
    wanted=$1
    shift
    for process; do
        grep -q "^State:[[:space:]]*$wanted" "/proc/$process/status" 2>/dev/null || return 1
    done
}

# make_leaver: "$tmp/leave" RANK, whose rank RANK (all: each of them) returns 0 from main and has not closed its
# communicator, while the others go on.
make_leaver() {
    cat >"$tmp/leave.c" <<'C'
#include <ronda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words)
{
    ronda_comm *c;
    if (count != 2 || ronda_init(NULL, &c))
        return 9;
    uint32_t x = ronda_rank(c);
    if (strcmp(words[1], "all") == 0)
        return 0;
    ronda_status status = ronda_barrier(c);
    if (x == (uint32_t)atoi(words[1]))
        return status;
    if (!status) /* else the rank was quick */
        status = ronda_allreduce(c, &x, &x, 1, RONDA_U32, RONDA_SUM);
    fprintf(stderr, "%s\n", ronda_last_error(c));
    return status ? 5 : 9;
}
C
    $CC -std=c17 -Iinclude -o "$tmp/leave" "$tmp/leave.c" "$BUILD/libronda.a" -lm -pthread
}
