/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static UMBRA_CHANNEL(int) numbers;

static void *produce(void *last) {
    for (int i = 1; i <= *(int *)last; i++) UMBRA_CHANNEL_PUSH(&numbers, &i, UMBRA_NEVER);
    UMBRA_CHANNEL_CLOSE(&numbers); /* the consumer's next pop fails */
    return NULL;
}

static void *consume(void *last) {
    if (UMBRA_CHANNEL_OPEN(&numbers, 4, UMBRA_CHANNEL_ONE) != 0) return NULL;
    umbra_spawn(produce, last, NULL);
    for (int i; UMBRA_CHANNEL_POP(&numbers, &i, UMBRA_NEVER) == 0;) printf("%d\n", i);
    return NULL;
}

int main(void) { return umbra_run(NULL, consume, &(int){5}); }
