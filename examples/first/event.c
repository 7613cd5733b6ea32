/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static struct umbra_event ready = UMBRA_EVENT_INIT;

static void *produce(void *number) {
    *(int *)number = 42;
    umbra_event_signal(&ready); /* wakes the consumer, on whatever core it is */
    return NULL;
}

static void *consume(void *number) {
    umbra_spawn(produce, number, NULL);
    umbra_event_wait(&ready, UMBRA_NEVER); /* this core runs other fibers meanwhile */
    printf("%d\n", *(int *)number);
    return NULL;
}

int main(void) { return umbra_run(NULL, consume, &(int){0}); }
