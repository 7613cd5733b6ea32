/* SPDX-License-Identifier: BSL-1.0 */
#include <umbra/wait.h>

#include "linkonce.h"

const void *linkonce_object(void)
{
    return umbra_wait_report();
}
