/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A dispatcher with a worker for each core and one that drives a device: the workers have functions and
 * states of their own, and each pulls values when it has nothing to do, so the device gets as many as it
 * is fast. Here the device is another process, which is given a value and answers over a socket; its
 * worker waits for the answer in a blocking call, and its core goes on with the others' values. (A GPU's
 * worker would wait for its stream.)
 *
 *     device [NUMBERS] [--cpus LIST]
 *
 * The lengths of the Collatz sequences of so many NUMBERS are summed up; 200000 by default. Says how many
 * values the processors and the device had. Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/blocking.h>
#include <umbra/dispatch.h>

#include "options.h"
#include "program.h"

const char program_name[] = "device";

#define MOST 100000000
#define GRAIN 500      /* numbers of a value */
#define UNITS_MOST 257 /* cores, and the device */

/* What a worker has as its state. */
struct unit {
    _Alignas(UMBRA_CACHE_LINE) uint64_t sum;
    size_t values;
    int socket; /* to the device, for its worker */
};

struct span {
    uint64_t begin, end;
};

static size_t count = 200000;
static struct unit units[UNITS_MOST];
static unsigned cores;

static uint64_t length_of(uint64_t number)
{
    uint64_t length = 0;

    for (; number > 1; length++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return length;
}

static uint64_t lengths_of(const struct span *numbers)
{
    uint64_t sum = 0;

    for (uint64_t number = numbers->begin; number < numbers->end; number++)
        sum += length_of(number);
    return sum;
}

/* ---- the device ---- */

/* Until its driver has closed the socket. */
static void be_device(int socket)
{
    struct span numbers;

    while (recv(socket, &numbers, sizeof(numbers), MSG_WAITALL) == sizeof(numbers)) {
        uint64_t sum = lengths_of(&numbers);

        if (send(socket, &sum, sizeof(sum), MSG_NOSIGNAL) != sizeof(sum))
            break;
    }
}

static int start_device(pid_t *pid)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -errno;
    *pid = fork();
    if (*pid == 0) {
        close(ends[0]);
        be_device(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    return *pid < 0 ? -errno : ends[0];
}

/* ---- workers ---- */

static int on_processor(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct unit *unit = worker->state;
    struct span numbers = {value.begin, value.end};

    (void)arg;
    unit->sum += lengths_of(&numbers);
    unit->values++;
    return 0;
}

struct call {
    struct unit *unit;
    struct span numbers;
    uint64_t sum;
    int error;
};

/* On a helper thread. */
static void ask_device(void *arg)
{
    struct call *call = arg;

    if (send(call->unit->socket, &call->numbers, sizeof(call->numbers), MSG_NOSIGNAL) !=
            sizeof(call->numbers) ||
        recv(call->unit->socket, &call->sum, sizeof(call->sum), MSG_WAITALL) != sizeof(call->sum))
        call->error = -EIO;
}

static int on_device(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct call call = {.unit = worker->state, .numbers = {value.begin, value.end}};
    int error = umbra_blocking(ask_device, &call);

    (void)arg;
    if (error == 0)
        error = call.error;
    if (error == 0) {
        call.unit->sum += call.sum;
        call.unit->values++;
    }
    return error;
}

static void *run(void *arg)
{
    static umbra_dispatch_fn *fns[UNITS_MOST];
    static void *states[UNITS_MOST];
    struct umbra_dispatch_options options = {.fns = fns, .states = states};
    struct umbra_dispatch *dispatch;
    int *error = arg, queued;

    cores = umbra_runtime_cores(umbra_runtime_self());
    if (cores > UNITS_MOST - 1)
        cores = UNITS_MOST - 1;
    options.workers = cores + 1;
    for (unsigned i = 0; i <= cores; i++) {
        fns[i] = i < cores ? on_processor : on_device;
        states[i] = i < cores ? &units[i] : &units[UNITS_MOST - 1];
    }
    *error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (*error)
        return NULL;
    umbra_dispatch_begin(dispatch); /* the first step */
    queued = umbra_dispatch_range(dispatch, 1, count + 1, GRAIN);
    *error = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    *error = *error ? *error : queued;
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

static int report(void)
{
    const struct unit *device = &units[UNITS_MOST - 1];
    struct span all = {1, count + 1};
    uint64_t sum = device->sum;
    size_t values = 0;

    for (unsigned i = 0; i < cores; i++) {
        sum += units[i].sum;
        values += units[i].values;
    }
    printf("%u processors: %zu values, device: %zu\n", cores, values, device->values);
    printf("%zu numbers: the sum is %s\n", count, sum == lengths_of(&all) ? "right" : "WRONG");
    return sum == lengths_of(&all) ? 0 : 1;
}

static void read_options(int argc, char **argv)
{
    const struct option_row rows[] = {
        {"NUMBERS", NULL, "how many; 200000 by default", .number = {&count, 1, MOST}},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: device [NUMBERS] [--cpus LIST]\n", .column = 16, .rows = rows};

    options_read(&table, argc, argv);
}

int main(int argc, char **argv)
{
    int failed = 0, error, socket;
    pid_t pid = -1;

    read_options(argc, argv);
    socket = start_device(&pid); /* before there are threads */
    if (socket < 0) {
        fprintf(stderr, "device: %s\n", strerror(-socket));
        return 1;
    }
    units[UNITS_MOST - 1].socket = socket;
    error = umbra_run(NULL, run, &failed);
    close(socket);
    waitpid(pid, NULL, 0);
    if (error || failed) {
        fprintf(stderr, "device: %s\n", error_text(error ? error : failed));
        return 1;
    }
    return printed(report());
}
