/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Another program that takes a processor: a child process, bound to it, of ordinary priority, that
 * does nothing but use it. It ends with the thread that created it at the latest.
 */
#ifndef HEAT_TAKER_H
#define HEAT_TAKER_H

#include <sys/types.h>
#include <time.h>

struct taker {
    pid_t process;
    clockid_t clock; /* of the processor time that it has used */
    int go;          /* a pipe: what is written lets it begin */
};

/* Does not take anything yet. 0 or a negative errno: -EINVAL when the processor is not there. */
int taker_create(struct taker *taker, int processor);

/* Begins to use the processor. Any thread, once; does not wait. */
void taker_begin(struct taker *taker);

/* Processor time that it has got so far. Any thread. */
double taker_ms(const struct taker *taker);

void taker_destroy(struct taker *taker);

#endif
