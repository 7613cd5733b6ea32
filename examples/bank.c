/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A server made of ports: a bank whose accounts are looked at by many at once, and changed by one at
 * a time, without a lock. An Interleave arbiter sees to that: audits are concurrent handlers,
 * transfers are exclusive ones, and the end is its teardown. Customers on all cores post requests,
 * each with a port for the answer in its own frame. In the end each reports success or failure, and
 * the program waits for so many reports of both kinds together (MultipleItemReceive).
 *
 *     bank [CUSTOMERS [REQUESTS]]
 *
 * An audit that overlapped with a transfer would find a wrong sum: that is a failure.
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/port.h>

#define ACCOUNTS 64
#define EACH 1000 /* on every account at first */

struct request;
struct report;
typedef UMBRA_PORT(struct request) request_port;
typedef UMBRA_PORT(struct report) report_port;

struct request {
    struct umbra_message message;
    unsigned from, to; /* accounts; a transfer's */
    long amount;       /* a transfer's; of an audit the answer */
    request_port *answer;
};

struct report {
    struct umbra_message message;
    unsigned long audits, transfers;
};

struct bank {
    long account[ACCOUNTS];
    request_port audits, transfers, close;
    report_port succeeded, failed;
    unsigned long customers, requests;
    int status;
};

/* ---- the bank's handlers ---- */

static void audit(struct umbra_message *message, void *arg)
{
    struct request *request = UMBRA_MESSAGE_AS(struct request, message);
    struct bank *bank = arg;

    request->amount = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        request->amount += bank->account[i];
        if (i == ACCOUNTS / 2)
            umbra_yield(); /* others may run meanwhile, but no transfer */
    }
    UMBRA_PORT_POST(request->answer, request, UMBRA_NEVER);
}

static void transfer(struct umbra_message *message, void *arg)
{
    struct request *request = UMBRA_MESSAGE_AS(struct request, message);
    struct bank *bank = arg;

    bank->account[request->from] -= request->amount;
    umbra_yield();
    bank->account[request->to] += request->amount;
    UMBRA_PORT_POST(request->answer, request, UMBRA_NEVER);
}

static void close_bank(struct umbra_message *message, void *arg)
{
    struct request *request = UMBRA_MESSAGE_AS(struct request, message);
    struct bank *bank = arg;

    UMBRA_PORT_CLOSE(&bank->audits);
    UMBRA_PORT_CLOSE(&bank->transfers);
    UMBRA_PORT_POST(request->answer, request, UMBRA_NEVER);
}

/* ---- the customers ---- */

/* Posts a request and waits for its answer. */
static bool ask(request_port *port, struct request *request)
{
    request_port answer = {UMBRA_PORT_INIT};
    struct request *answered;

    request->answer = &answer;
    return UMBRA_PORT_POST(port, request, UMBRA_NEVER) == 0 &&
           UMBRA_PORT_RECEIVE(&answer, &answered, UMBRA_NEVER) == 0;
}

static bool ask_something(struct bank *bank, unsigned customer, unsigned long i,
                          struct report *report)
{
    struct request request = {.from = (unsigned)(customer + i) % ACCOUNTS,
                              .to = (unsigned)(customer + 7 * i) % ACCOUNTS,
                              .amount = (long)(i % 10)};

    if (i % 4 == 0) {
        report->transfers++;
        return ask(&bank->transfers, &request);
    }
    report->audits++;
    return ask(&bank->audits, &request) && request.amount == (long)ACCOUNTS * EACH;
}

struct customer {
    struct bank *bank;
    unsigned number;
    struct report report;
};

static void *shop(void *arg)
{
    struct customer *self = arg;
    bool good = true;

    for (unsigned long i = 0; i < self->bank->requests; i++)
        good = ask_something(self->bank, self->number, i, &self->report) && good;
    UMBRA_PORT_POST(good ? &self->bank->succeeded : &self->bank->failed, &self->report,
                    UMBRA_NEVER);
    return NULL;
}

/* ---- the program ---- */

/* How many there are. */
static unsigned spawn_customers(struct bank *bank, struct customer *customer)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    unsigned i;

    for (i = 0; i < bank->customers; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i % cores};

        customer[i] = (struct customer){.bank = bank, .number = i};
        if (umbra_spawn_with(NULL, &there, shop, &customer[i], NULL) != 0)
            break;
    }
    return i;
}

/* Waits for all reports, of whichever kind, and adds them up. Whether none is a failure. */
static bool wait_for_reports(struct bank *bank, unsigned reports, struct report *sum)
{
    struct umbra_branch all = {
        UMBRA_ITEMS(reports, UMBRA_FROM(&bank->succeeded), UMBRA_FROM(&bank->failed))};
    struct umbra_message *message = NULL;
    bool good = umbra_choose(&all, 1, UMBRA_NEVER, NULL, &message) == 0;

    for (; message; message = message->next) {
        struct report *report = UMBRA_MESSAGE_OF(&bank->succeeded, message);

        sum->audits += report->audits;
        sum->transfers += report->transfers;
        good = good && UMBRA_MESSAGE_FROM(&bank->succeeded, message);
    }
    return good;
}

static bool serve(struct bank *bank, struct customer *customer, struct report *sum)
{
    struct umbra_branch service[] = {
        {UMBRA_RECEIVE(&bank->audits), .handler = audit, .arg = bank},
        {UMBRA_RECEIVE(&bank->transfers), .handler = transfer, .arg = bank,
         .group = UMBRA_EXCLUSIVE},
        {UMBRA_RECEIVE(&bank->close), .handler = close_bank, .arg = bank, .group = UMBRA_TEARDOWN}};
    struct request closing = {.amount = 0};
    _Alignas(UMBRA_CACHE_LINE) struct umbra_arbiter arbiter;
    unsigned customers;
    bool good;

    if (umbra_arbiter_start(&arbiter, service, 3, NULL) != 0)
        return false;
    customers = spawn_customers(bank, customer);
    good = wait_for_reports(bank, customers, sum) && customers == bank->customers;
    good = ask(&bank->close, &closing) && good;
    return umbra_arbiter_join(&arbiter, UMBRA_NEVER) == 0 && good;
}

static void *run(void *arg)
{
    struct bank *bank = arg;
    struct customer *customer = calloc(bank->customers, sizeof(*customer));
    struct report sum = {.audits = 0};
    uint64_t start = umbra_now_ns();
    long money = 0;
    bool good = customer && serve(bank, customer, &sum);

    for (int i = 0; i < ACCOUNTS; i++)
        money += bank->account[i];
    printf("%lu customers: %lu audits, %lu transfers, %.0f ns a request; %s\n", bank->customers,
           sum.audits, sum.transfers,
           (double)(umbra_now_ns() - start) / (double)(bank->customers * bank->requests),
           good && money == (long)ACCOUNTS * EACH ? "every sum was right" : "FAILED");
    bank->status = good && money == (long)ACCOUNTS * EACH ? 0 : 1;
    free(customer);
    return NULL;
}

static bool parse(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && *number >= 1 && *number <= most)
        return true;
    fprintf(stderr, "bank: not a number from 1 to %lu: '%s'\n", most, text);
    return false;
}

int main(int argc, char **argv)
{
    static struct bank bank = {.audits = {UMBRA_PORT_INIT},
                               .transfers = {UMBRA_PORT_INIT},
                               .close = {UMBRA_PORT_INIT},
                               .succeeded = {UMBRA_PORT_INIT},
                               .failed = {UMBRA_PORT_INIT},
                               .customers = 100,
                               .requests = 1000,
                               .status = 1};
    int error;

    if (argc > 3) {
        fprintf(stderr, "bank: unknown argument: '%s'\n", argv[3]);
        return 2;
    }
    if ((argc > 1 && !parse(argv[1], 100000, &bank.customers)) ||
        (argc > 2 && !parse(argv[2], 100000000, &bank.requests)))
        return 2;
    for (int i = 0; i < ACCOUNTS; i++)
        bank.account[i] = EACH;
    error = umbra_run(NULL, run, &bank);
    if (error)
        fprintf(stderr, "bank: %s\n", umbra_last_error_text());
    return error ? 1 : bank.status;
}
