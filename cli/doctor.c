/* doctor.c: `ronda doctor`; see doctor.h. */
#include "doctor.h"

#include <stdlib.h>

#include "args.h"
#include "base/cpu.h"
#include "cli.h"

static const char ME[] = "doctor";

static int look_alone(const doctor_request *q, doctor_list *list)
{
    doctor_report report = {.size = 1, .json = q->json};
    const uint32_t ranks = q->ranks ? q->ranks : rd_usable_cpus();
    doctor_cores(list, ranks);
    doctor_load(list, ranks);
    doctor_memory(list, ranks);
    doctor_files(list, ranks);
    doctor_kernel(list);
    doctor_interfaces(list, NULL);
    report.list = *list;
    if (q->json)
        doctor_print_json(&report);
    else
        doctor_print(&report);
    return doctor_problems(list) ? CLI_FAILED : CLI_OK;
}

int cli_doctor(int count, char **arguments)
{
    doctor_request q;
    doctor_list list = {0};
    uint32_t rank, size;
    int status = doctor_read(count, arguments, &q);
    if (status)
        return status;
    const bool sound = doctor_environment(&list, &rank, &size);
    if (size > 1 && q.ranks)
        status = cli_wrong(ME, "-n: the ranks are there already, %u of them", size);
    else if (size > 1 && sound)
        status = doctor_world(&list, &q, rank, size);
    else
        status = look_alone(&q, &list);
    free(list.at);
    return status;
}
