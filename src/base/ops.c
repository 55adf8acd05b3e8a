#include "base/ops.h"

#include "base/hash.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Written once each; `count` says how many can be read. */
static rd_user_op ops[RD_MOST_USER_OPS];
static _Atomic uint32_t count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const rd_user_op *rd_user_op_of(ronda_op op)
{
    const uint32_t known = op < RD_FIRST_USER_OP ? 0 : atomic_load(&count);
    for (uint32_t i = 0; i < known; i++)
        if (ops[i].number == op)
            return &ops[i];
    return NULL;
}

/* 28 bits: two names of a program will hardly have the same. */
static ronda_op number_of(const char *name, bool commutes)
{
    uint64_t hash = rd_hash(RD_HASH_START + commutes, name, strlen(name));
    hash ^= hash >> 29;
    return RD_FIRST_USER_OP + (ronda_op)(hash & 0xfffffff);
}

static bool is_name(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)name[i]))
            return false;
    return length > 0 && length < RD_OP_NAME;
}

static ronda_status add(const rd_user_op *op, rd_error *err)
{
    const uint32_t known = atomic_load(&count);
    for (uint32_t i = 0; i < known; i++) {
        if (strcmp(ops[i].name, op->name) == 0 && ops[i].fold == op->fold &&
            ops[i].context == op->context && ops[i].commutes == op->commutes)
            return RONDA_OK; /* the very same: ranks as threads make it once each */
        if (strcmp(ops[i].name, op->name) == 0)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "there is an op '%s' already", op->name);
        if (ops[i].number == op->number)
            return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                           "the op '%s' has the number of '%s': choose another name", op->name,
                           ops[i].name);
    }
    if (known == RD_MOST_USER_OPS)
        return rd_fail(err, RONDA_ELIMIT, RONDA_ANY, "there are %d ops of the user's already",
                       RD_MOST_USER_OPS);
    ops[known] = *op;
    atomic_store(&count, known + 1);
    return RONDA_OK;
}

ronda_status rd_op_add(const char *name, ronda_op_fn *fold, void *context, bool commutes,
                       ronda_op *out, rd_error *err)
{
    if (!name || !is_name(name))
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY,
                       "the name of an op has 1 to %d characters and no blanks", RD_OP_NAME - 1);
    if (!fold || !out)
        return rd_fail(err, RONDA_EINVAL, RONDA_ANY, "ronda_op_create: %s is NULL",
                       fold ? "out" : "the function");
    rd_user_op op = {.number = number_of(name, commutes),
                     .commutes = commutes,
                     .fold = fold,
                     .context = context};
    memcpy(op.name, name, strlen(name));
    pthread_mutex_lock(&adding);
    const ronda_status status = add(&op, err);
    pthread_mutex_unlock(&adding);
    if (!status)
        *out = op.number;
    return status;
}
