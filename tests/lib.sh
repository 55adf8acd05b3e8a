# What the script tests share; to be sourced from the root of the tree.
#
# A script test is like a test program: a line "ok NAME" or "FAIL NAME" per test, what is wrong
# before it, and the line "N passed, N failed[, N skipped]" at the end.

export LC_ALL=C
BUILD=${BUILD:-build}
CC=${CC:-cc}
MAKE=${MAKE:-make}
passed=0 failed=0 skipped=0

# A directory that goes away with the script.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# make, as if a person had called it: nothing of a make above, apart from variables it was given.
clean_make() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES "$MAKE" --no-print-directory "$@"
}

ok() {
    passed=$((passed + 1))
    echo "ok $1"
}

fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
}

skip() {
    skipped=$((skipped + 1))
    echo "skip $1: $2"
}

# attempt NAME COMMAND...: the test is that the command succeeds; if not, its output is shown.
attempt() {
    attempt_name=$1
    shift
    if "$@" >"$tmp/attempt" 2>&1 </dev/null; then
        ok "$attempt_name"
    else
        cat "$tmp/attempt"
        fail "$attempt_name"
        return 1
    fi
}

# silent NAME FILE: the test is that nothing was written to the file, a list of complaints.
silent() {
    if [ -s "$2" ]; then
        cat "$2"
        fail "$1"
    else
        ok "$1"
    fi
}

# hide_libcrypto DIRECTORY: with this as LD_LIBRARY_PATH, what the loader finds first is no library.
hide_libcrypto() {
    mkdir "$1"
    for name in libcrypto.so.3 libcrypto.so.1.1 libcrypto.so; do
        echo nothing >"$1/$name"
    done
}

finish() {
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
    exit
}
