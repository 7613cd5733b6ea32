/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Thread-locals. The code of an executable finds its thread-locals at fixed distances below the
 * thread pointer. In this process that place belongs to the program that holds the children. So
 * that program has a room there, which it does not use:
 *
 *     ... | other modules | this program's own | room | thread pointer
 *
 * The room must come last: the assembler's .tls_common puts it behind all else. When a child goes
 * on and the room holds another's thread-locals, the two are exchanged.
 *
 * Where a library that is preloaded has the room, the executable's own thread-locals are between it
 * and the thread pointer. Then the place of both is the room. One fiber of one core uses the
 * executable's: they are put aside when a child goes on there, and put back when that fiber does.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>

#include "bind.h"

__asm__(".tls_common um_room,16384,64");
extern _Thread_local char um_room[UM_ROOM_BYTES];

_Static_assert(UM_ROOM_BYTES == 16384 && UM_ROOM_ALIGN == 64, "as in the assembly");

_Thread_local struct um_seat um_seat;

char *um_thread_pointer(void)
{
    char *pointer;

    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

/* The executable's thread-locals; the first object. */
static int of_executable(struct dl_phdr_info *object, size_t bytes, void *arg)
{
    (void)bytes;
    *(const char **)arg = object->dlpi_tls_data;
    return 1;
}

/* Bytes between the room and the thread pointer, if they are the executable's alone; else 0. */
static size_t host_bytes(void)
{
    uintptr_t end = (uintptr_t)um_room + UM_ROOM_BYTES;
    const char *own = NULL;

    dl_iterate_phdr(of_executable, &own);
    if ((uintptr_t)own < end || (uintptr_t)own >= end + UM_ROOM_ALIGN)
        return 0;
    return (uintptr_t)um_thread_pointer() - end;
}

static bool host_has_begun; /* and has room aside; written before the first image is opened */

void um_host_begin(void)
{
    size_t bytes = host_bytes();

    if (bytes > 0)
        um_seat.host_tls = malloc(bytes);
    host_has_begun = um_seat.host_tls != NULL;
}

int um_room_check(void)
{
    if (um_room + UM_ROOM_BYTES == um_thread_pointer() || (host_has_begun && host_bytes() > 0))
        return 0;
    return um_why(-ENOTSUP, "no room for children's thread-locals: those of another library, which "
                            "was loaded first, or of an object linked behind, are in its place");
}

/* The thread-locals of a child, or of a thread of its own, that begins. */
void um_room_begin(const struct umbra_child *child, char *to)
{
    const struct umbra_image *image = child->image;

    memcpy(to, child->copy->base + image->tls_image, image->tls_filled);
    memset(to + image->tls_filled, 0, image->tls_bytes - image->tls_filled);
}

static void room_exchange(struct umbra_child *child)
{
    struct umbra_child *before = um_seat.in_room;
    char *pointer = um_thread_pointer(), *end = um_room + UM_ROOM_BYTES;

    if (um_seat.host_tls && !um_seat.host_away) {
        memcpy(um_seat.host_tls, end, (size_t)(pointer - end));
        um_seat.host_away = true;
    }
    if (before)
        memcpy(before->tls, pointer - before->image->tls_bytes, before->image->tls_bytes);
    memcpy(pointer - child->image->tls_bytes, child->tls, child->image->tls_bytes);
    um_seat.in_room = child;
}

void um_host_resumed(void)
{
    struct umbra_child *before = um_seat.in_room;
    char *pointer = um_thread_pointer(), *end = um_room + UM_ROOM_BYTES;

    um_seat.running = NULL;
    if (!um_seat.host_away)
        return;
    if (before)
        memcpy(before->tls, pointer - before->image->tls_bytes, before->image->tls_bytes);
    memcpy(end, um_seat.host_tls, (size_t)(pointer - end));
    um_seat.host_away = false;
    um_seat.in_room = NULL;
}

void um_child_resumed(struct umbra_child *child)
{
    if (um_seat.thread)
        return;
    um_seat.running = child;
    if (child->image->tls_bytes > 0 && um_seat.in_room != child)
        room_exchange(child);
}

/* ---- thread-locals of libraries ---- */

/* The arguments of other_thread() and module_at(). */
struct seen {
    const void *address;
    const char *pointer;
    uint64_t module, offset;
    int found;
};

static int module_at(struct dl_phdr_info *object, size_t bytes, void *arg)
{
    struct seen *seen = arg;
    uint64_t offset = (uintptr_t)seen->address - (uintptr_t)object->dlpi_tls_data;

    (void)bytes;
    if (!object->dlpi_tls_data)
        return 0;
    for (unsigned i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS && offset < object->dlpi_phdr[i].p_memsz) {
            seen->module = object->dlpi_tls_modid;
            seen->offset = offset;
            seen->found = 1;
        }
    return seen->found;
}

int um_tls_module(const void *address, uint64_t *module, uint64_t *offset)
{
    struct seen seen = {.address = address};

    if (!dl_iterate_phdr(module_at, &seen))
        return -ENOENT;
    *module = seen.module;
    *offset = seen.offset;
    return 0;
}

struct tls_index {
    uint64_t module, offset;
};
extern void *um_tls_get_addr(struct tls_index *index) __asm__("__tls_get_addr");

void *um_bind_tls_get_addr(uint64_t *index)
{
    if (index[0] == UM_TLS_OWN)
        return um_thread_pointer() - um_seat.running->image->tls_bytes + index[1];
    return um_tls_get_addr((struct tls_index *)index);
}

static void *other_thread(void *arg)
{
    struct seen *seen = arg;

    seen->address = um_tls_get_addr(&(struct tls_index){seen->module, seen->offset});
    seen->pointer = um_thread_pointer();
    return NULL;
}

/* The distance from the thread pointer, if it is the same in every thread: another is asked. */
int um_tls_offset(const void *address, uint64_t *offset)
{
    struct seen seen = {.address = address};
    uint64_t here = (uintptr_t)address - (uintptr_t)um_thread_pointer();
    pthread_t thread;

    if (!dl_iterate_phdr(module_at, &seen) ||
        pthread_create(&thread, NULL, other_thread, &seen) != 0)
        return -ENOENT;
    pthread_join(thread, NULL);
    *offset = here;
    return (uintptr_t)seen.address - (uintptr_t)seen.pointer == here ? 0 : -ENOENT;
}

/* A descriptor's function: rax points to the descriptor. Its second word is the distance. */
__asm__(".text\n"
        ".globl um_tlsdesc_fixed\n"
        ".hidden um_tlsdesc_fixed\n"
        ".type um_tlsdesc_fixed, @function\n"
        "um_tlsdesc_fixed:\n"
        "    .cfi_startproc\n"
        "    movq 8(%rax), %rax\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size um_tlsdesc_fixed, . - um_tlsdesc_fixed\n");
