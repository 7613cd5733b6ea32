/* SPDX-License-Identifier: BSL-1.0 */
/* Growing arrays. */
#define _GNU_SOURCE
#include "loader.h"

void *um_array_add(struct um_array *list)
{
    if (list->size == 0)
        list->size = sizeof(void *);
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        void *grown = reallocarray(list->first, room, list->size);

        if (!grown)
            return NULL;
        list->first = grown;
        list->room = room;
    }
    return memset((char *)list->first + list->count++ * list->size, 0, list->size);
}

void um_array_free(struct um_array *list)
{
    free(list->first);
    *list = (struct um_array){.size = list->size};
}
