/* SPDX-License-Identifier: BSL-1.0 */
#include <umbra/wait.h>

#include "linkonce.h"

const void *linkonce_second(void)
{
    return um_wait_report();
}
