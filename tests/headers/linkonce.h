/* SPDX-License-Identifier: BSL-1.0 */
/* Where each part of the test program finds the library's once-initialised state. */
#ifndef LINKONCE_H
#define LINKONCE_H

const void *linkonce_second(void); /* in another file of the executable */
const void *linkonce_object(void); /* in a shared object */

#endif
