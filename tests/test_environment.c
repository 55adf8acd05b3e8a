/* test_environment.c: what launchers tell their ranks, planted; tests/launchers has the real ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/comm.h"
#include "harness.h"
#include "mangle.h"

/* Whatever this test itself was started by. */
static void forget_all(void)
{
    static const char *const names[] = {"RONDA_RANK",
                                        "RONDA_SIZE",
                                        "RONDA_ADDR",
                                        "RONDA_TRANSPORT",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "LOCAL_WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMIX_NAMESPACE",
                                        "OMPI_MCA_orte_hnp_uri",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMI_FD",
                                        "PMI_PORT",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_PROCID",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_JOB_NODELIST",
                                        "RONDA_KEY",
                                        "RONDA_INSECURE",
                                        "SLURM_STEP_NUM_NODES",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "OMPI_MCA_ess_base_jobid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* "A=1 B=2": nothing but that */
static void plant(const char *text)
{
    char copy[1000];
    forget_all();
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *item; (item = strsep(&rest, " "));) {
        char *value = strchr(item, '=');
        if (!value)
            continue;
        *value++ = 0;
        setenv(item, value, 1);
    }
}

static ronda_status read_planted(const char *text, rd_joining *j, rd_error *err)
{
    const rd_settings settings = {.timeout_ns = 1};
    plant(text);
    *err = (rd_error){0};
    return rd_world_read(NULL, &settings, j, err);
}

static void check_world(const char *text, uint32_t rank, uint32_t size, bool hosts,
                        const char *address)
{
    rd_joining j;
    rd_error err;
    char got[300] = "";
    const ronda_status status = read_planted(text, &j, &err);
    if (!CHECK(status == RONDA_OK, "%s: %s", text, err.message))
        return;
    if (j.size > 1)
        rd_address_text(&j.address, got, sizeof got);
    CHECK(j.rank == rank && j.size == size && j.hosts == hosts, "%s: rank %u of %u, hosts %d", text,
          j.rank, j.size, j.hosts);
    CHECK(strncmp(got, address, strlen(address)) == 0 && (*address || !*got),
          "%s: they meet at '%s', not '%s'", text, got, address);
}

static void check_refused(const char *text, const char *thing)
{
    rd_joining j;
    rd_error err;
    const ronda_status status = read_planted(text, &j, &err);
    CHECK(status == RONDA_EINVAL && strstr(err.message, thing), "%s: %d: '%s' is not in: %s", text,
          status, thing, err.message);
}

static void here(const char *launcher, char text[64])
{
    snprintf(text, 64, "file:@ronda-%u-%s-", geteuid(), launcher);
}

#define TORCH "RANK=3 WORLD_SIZE=8 MASTER_PORT=29500 "
TEST(torchrun)
{
    char name[64];
    here("torchrun", name);
    check_world(TORCH "MASTER_ADDR=node7 LOCAL_WORLD_SIZE=4", 3, 8, true, "node7:28500");
    check_world(TORCH "MASTER_ADDR=node7 LOCAL_WORLD_SIZE=8", 3, 8, false, name);
    check_world(TORCH "MASTER_ADDR=node7", 3, 8, true, "node7:28500");
    check_world(TORCH "MASTER_ADDR=localhost", 3, 8, false, "127.0.0.1:28500");
    check_world(TORCH "MASTER_ADDR=fd00::7", 3, 8, true, "[fd00::7]:28500");
    check_world(TORCH "MASTER_ADDR=localhost LOCAL_WORLD_SIZE=8 RONDA_TRANSPORT=tcp", 3, 8, true,
                "127.0.0.1:28500");
    check_world("RANK=0 WORLD_SIZE=1", 0, 1, false, "");
    check_world("RANK=1", 0, 1, false, "");
    check_refused("RANK=1 WORLD_SIZE=2", "MASTER_ADDR");
    check_refused("RANK=1 WORLD_SIZE=2 MASTER_ADDR=x", "MASTER_PORT");
    check_refused("RANK=1 WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=99999", "MASTER_PORT=99999");
    check_refused("RANK=x WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=1", "RANK=x");
    check_refused("RANK=2 WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=1", "rank 2");
    for (uint32_t p = 1; p < 65536; p++) {
        const uint16_t beside = rd_port_beside((uint16_t)p);
        CHECK(beside != p && beside >= 1000, "%u gives %u", p, beside);
    }
}

#define OPEN_MPI "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 "
TEST(mpirun_of_open_mpi)
{
    char name[64], first[300], second[300];
    rd_joining j;
    rd_error err;
    here("mpirun", name);
    check_world(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=1535311873", 2, 4, false,
                name);
    snprintf(first, sizeof first, "%s",
             read_planted(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=1", &j, &err)
                 ? ""
                 : j.address.path);
    snprintf(second, sizeof second, "%s",
             read_planted(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=2", &j, &err)
                 ? ""
                 : j.address.path);
    CHECK(*first && *second && strcmp(first, second) != 0, "two jobs meet at %s", first);
    check_world(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=7 RONDA_TRANSPORT=tcp", 2, 4,
                true, "file:/tmp/ronda-");
    check_world(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 RONDA_ADDR=node7:5000", 2, 4, true,
                "node7:5000");
    check_world(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_ess_base_jobid=5 SLURM_PROCID=0 "
                         "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=4",
                2, 4, false, name);
    check_refused(OPEN_MPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1", "RONDA_ADDR");
    check_refused(OPEN_MPI, "mpirun does not say where rank 0 is");
    check_refused("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=0", "OMPI_COMM_WORLD_SIZE=0");
}

TEST(mpiexec_of_mpich)
{
    char name[64], text[200];
    int pair[2];
    here("mpiexec", name);
    if (!CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets"))
        return;
    snprintf(text, sizeof text, "PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=3 PMI_FD=%d", pair[0]);
    check_world(text, 1, 3, false, name);
    snprintf(text, sizeof text, "PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=2 PMI_FD=%d", pair[0]);
    check_refused(text, "RONDA_ADDR");
    close(pair[0]);
    close(pair[1]);
    check_world("PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=3 PMI_PORT=host:1234", 1, 3, false, name);
    check_refused("PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=3", "RONDA_ADDR");
    check_refused("PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=3 PMI_FD=x", "RONDA_ADDR");
    check_refused("PMI_RANK=1 PMI_SIZE=3 PMI_FD=77777", "RONDA_ADDR");
    check_world("PMI_RANK=0 PMI_SIZE=1", 0, 1, false, "");
}

#define STEP "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 "
TEST(srun)
{
    char name[64];
    here("srun", name);
    check_world(STEP "SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=node7", 5, 8, false, name);
    check_world(STEP "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=node[07-08]", 5, 8, true,
                "node07:2");
    check_world(STEP "SLURM_STEP_NUM_NODES=2 SLURM_JOB_NODELIST=a,b", 5, 8, true, "a:2");
    check_world(STEP "PMI_RANK=5 PMI_SIZE=8 SLURM_STEP_NUM_NODES=2 SLURM_JOB_NODELIST=a,b", 5, 8,
                true, "a:2");
    check_world("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=4711", 0, 1, false, ""); /* a script */
    check_refused("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_ID=0", "RONDA_ADDR");
    check_refused(STEP "SLURM_STEP_NUM_NODES=2", "RONDA_ADDR");
}

TEST(the_first_of_a_list_of_hosts)
{
    static const char *const lists[][2] = {
        {"node7", "node7"},         {"node7,node8", "node7"}, {"node[003-010,12],other", "node003"},
        {"n[5,7-9]-ib,x", "n5-ib"}, {"r[1-2]n[3-4]", "r1n3"}, {"gpu[12]", "gpu12"}};
    char host[256];
    for (int i = 0; i < 6; i++)
        CHECK(rd_first_host(lists[i][0], host, sizeof host) && strcmp(host, lists[i][1]) == 0,
              "%s gave %s", lists[i][0], host);
    CHECK(!rd_first_host("", host, sizeof host) && !rd_first_host("a[1-2", host, sizeof host) &&
              !rd_first_host("abcdefgh", host, 8) && rd_first_host("abcdefg", host, 8) &&
              !rd_first_host("abc[12345]", host, 8),
          "what does not fit was taken");
}

TEST(mangled_lists_of_hosts)
{
    static const char *const texts[] = {"node[003-010,12],other", "r[1-2]n[3-4]-ib", "a,b,c", NULL};
    rng r = rng_start();
    for (uint32_t i = 0; i < (test_sanitized() ? 50000u : 200000u) && !test_failed(); i++) {
        char *text = mangled_text(&r, texts), *host = malloc(24);
        const size_t capacity = 1 + rng_below(&r, 24);
        if (host && rd_first_host(text, host, capacity))
            CHECK(memchr(host, 0, capacity) && *host && !strchr(host, ','), "%s gave %s", text,
                  host);
        free(text);
        free(host);
    }
}

TEST(rondas_own_variables_win)
{
    check_world("RONDA_RANK=1 RONDA_SIZE=2 RONDA_ADDR=file:/x " TORCH "MASTER_ADDR=node7", 1, 2,
                false, "file:/x");
    check_world("RONDA_ADDR=file:/x " TORCH "MASTER_ADDR=node7", 3, 8, false, "file:/x");
    check_world("RONDA_SIZE=1 " TORCH "MASTER_ADDR=node7", 0, 1, false, "");
    check_refused("RONDA_SIZE=2 " TORCH "MASTER_ADDR=node7", "RONDA_RANK");
    check_refused("RONDA_RANK=1 RONDA_SIZE=2 " TORCH "MASTER_ADDR=node7", "RONDA_ADDR");
    check_world("RONDA_RANK= RONDA_SIZE= RONDA_ADDR= " TORCH "MASTER_ADDR=node7", 3, 8, true,
                "node7:28500");
}

/* --- by which transport --- */

#define TWO "RONDA_RANK=1 RONDA_SIZE=2 "
TEST(the_address_picks_the_transport)
{
    rd_joining j;
    rd_error err;
    check_world(TWO "RONDA_ADDR=127.0.0.1:5000", 1, 2, false, "127.0.0.1:5000");
    check_world(TWO "RONDA_ADDR=[::1]:5000", 1, 2, false, "[::1]:5000");
    check_world(TWO "RONDA_ADDR=file:/x", 1, 2, false, "file:/x");
    check_world(TWO "RONDA_ADDR=node7:5000", 1, 2, true, "node7:5000");
    check_world(TWO "RONDA_ADDR=[fe80::1%3]:5000 RONDA_TRANSPORT=auto", 1, 2, true,
                "[fe80::1%3]:5000");
    check_world(TWO "RONDA_ADDR=10.0.0.1:5000 RONDA_TRANSPORT=tcp", 1, 2, true, "10.0.0.1:5000");
    check_world(TWO "RONDA_ADDR=127.0.0.1:5000 RONDA_TRANSPORT=tcp", 1, 2, true, "127.0.0.1:5000");
    check_world(TWO "RONDA_ADDR=file:/x RONDA_TRANSPORT=tcp", 1, 2, true, "file:/x");
    check_world(TWO "RONDA_ADDR=file:/x RONDA_TRANSPORT=shm", 1, 2, false, "file:/x");
    CHECK(read_planted(TWO "RONDA_ADDR=node7:5000 RONDA_TRANSPORT=shm", &j, &err) ==
                  RONDA_EUNSUPPORTED &&
              strstr(err.message, "node7"),
          "%s", err.message);
    check_refused(TWO "RONDA_ADDR=::1:5000", "[::1]:PORT");
    check_refused(TWO "RONDA_ADDR=10.0.0:5000", "10.0.0");
    check_refused(TWO "RONDA_ADDR=a_b$c:5000", "a_b$c");
    check_refused(TWO "RONDA_ADDR=[node7]:5000", "node7");
    check_refused(TWO "RONDA_ADDR=node7:5000 RONDA_INSECURE=yes", "RONDA_INSECURE=yes");
    CHECK(!read_planted(TWO "RONDA_ADDR=node7:5000 RONDA_INSECURE=1", &j, &err) && j.insecure &&
              !j.interfaces,
          "%s", err.message);
    CHECK(!read_planted(TWO "RONDA_ADDR=node7:5000 RONDA_INSECURE=0 RONDA_IFACE=eth0", &j, &err) &&
              !j.insecure && j.interfaces && strcmp(j.interfaces, "eth0") == 0,
          "%s", err.message);
    unsetenv("RONDA_IFACE");
}
