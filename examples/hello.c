/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static struct umbra_event ready = UMBRA_EVENT_INIT;

static void *produce(void *number)
{
    *(int *)number = 42;
    umbra_event_signal(&ready); /* wakes the consumer, whatever core it is on */
    return NULL;
}

static void *consume(void *number)
{
    struct umbra_spawn_options elsewhere = {.where = UMBRA_ANYWHERE}; /* the first idle core */

    if (umbra_spawn_with(NULL, &elsewhere, produce, number, NULL) == 0)
        umbra_event_wait(&ready, UMBRA_NEVER); /* this core runs other fibers meanwhile */
    printf("%d on core %d\n", *(int *)number, umbra_core_index());
    return NULL;
}

int main(void)
{
    int number = 0;

    return umbra_run(NULL, consume, &number) == 0 ? 0 : 1;
}
