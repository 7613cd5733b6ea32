/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Numbers in texts that users write, in variables of the environment first of all. Private.
 *
 * A number is digits, with nothing before them: no sign, no space. What is greater than it may be is
 * refused and not cut off. A variable that is empty counts as not set.
 */
#ifndef UMBRA_BASE_ENVIRONMENT_H
#define UMBRA_BASE_ENVIRONMENT_H

#include <stdlib.h>

#include <umbra/base/base.h>
#include <umbra/base/why.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Reads a number where *text begins, and puts *text behind it. False: there is none, or it is
 * greater than most. */
UM_LINKONCE UM_COLD bool um_number_read(const char **text, uint64_t most, uint64_t *value);

/* The number in a variable; `usual`: it is not set. Returns 0, or -EINVAL: it is none from least to
 * most. */
UM_LINKONCE UM_COLD int um_environment_number(const char *variable, uint64_t least, uint64_t most,
                                              uint64_t usual, uint64_t *value);

#ifdef UMBRA_IMPLEMENTATION

UM_LINKONCE UM_COLD bool um_number_read(const char **text, uint64_t most, uint64_t *value)
{
    const char *at = *text;
    uint64_t number = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (digit > most || number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (at == *text)
        return false;
    *text = at;
    *value = number;
    return true;
}

UM_LINKONCE UM_COLD int um_environment_number(const char *variable, uint64_t least, uint64_t most,
                                              uint64_t usual, uint64_t *value)
{
    const char *text = getenv(variable);
    const char *end = text;
    uint64_t number = usual;

    if (text && *text && (!um_number_read(&end, most, &number) || *end || number < least))
        return um_why(-EINVAL, "%s=%.100s: not a number from %llu to %llu", variable, text,
                      (unsigned long long)least, (unsigned long long)most);
    *value = number;
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
