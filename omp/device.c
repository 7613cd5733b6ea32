/* SPDX-License-Identifier: BSL-1.0 */
/* Devices: there is the host alone. A target region is a call, and teams are one after the
 * other. */
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "library.h"

/* ---- target ---- */

enum { KIND_FIRSTPRIVATE = 12, KIND_MASK = 0xff, KIND_ALIGN = 8 };
/* An argument: for which device, an identifier, and a value above or as the next one. */
enum { ARG_DEVICE = 0x7f, ARG_NEXT = 0x80, ARG_ID = 0xff00, ARG_LIMIT = 0x200, ARG_VALUE = 16 };

/* Copies what is firstprivate, one behind the other. to: NULL to count bytes. Returns how many. */
static size_t privates(size_t count, void **address, const size_t *bytes,
                       const unsigned short *kinds, char *to, size_t *align)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        size_t own = (size_t)1 << (kinds[i] >> KIND_ALIGN);

        if ((kinds[i] & KIND_MASK) != KIND_FIRSTPRIVATE || !address[i])
            continue;
        *align = own > *align ? own : *align;
        at = (at + own - 1) / own * own;
        if (to) {
            memcpy(to + at, address[i], bytes[i]);
            address[i] = to + at;
        }
        at += bytes[i];
    }
    return at;
}

/* The clause thread_limit, or 0. args: a list that ends with NULL, or NULL. */
static intptr_t limit_of(void **args)
{
    while (args && *args) {
        intptr_t id = (intptr_t)*args++;
        intptr_t value = id & ARG_NEXT ? (intptr_t)*args++ : id >> ARG_VALUE;

        if ((id & ARG_DEVICE) == 0 && (id & ARG_ID) == ARG_LIMIT) /* for all devices */
            return value;
    }
    return 0;
}

static void limit_set(intptr_t limit)
{
    if (limit > 0)
        um_omp_self()->task->icv.limit = (int)(limit < UM_OMP_NO_LIMIT ? limit : UM_OMP_NO_LIMIT);
}

/* A target region outside others: with the settings of an initial task, and one team. */
static void execute_outside(struct um_omp_member *self, um_omp_fn *fn, void *data, intptr_t limit)
{
    struct um_omp_icv before = self->task->icv;

    self->task->icv = um_omp_settings.icv;
    limit_set(limit);
    fn(data);
    self->task->icv = before;
    self->team->teams = 1;
    self->team->team = 0;
}

/* Executes a target region as an initial task, as on a device. limit: of threads; 0: no other. */
static void execute(um_omp_fn *fn, void *data, intptr_t limit)
{
    struct um_omp_member *self = um_omp_self(), *initial;

    if (self->team->level == 0) {
        execute_outside(self, fn, data, limit);
        return;
    }
    initial = um_omp_root_make();
    initial->team->around = self->team;
    um_omp_here = initial;
    limit_set(limit);
    fn(data);
    um_omp_here = self;
    um_omp_root_free(initial);
}

/* Tasks that come first by a depend clause, if there is one. */
static void await(void **depend)
{
    if (depend)
        um_omp_depend_await(um_omp_self(), depend);
}

UM_OMP_ABI void GOMP_target_ext(int device, um_omp_fn *fn, size_t count, void **address,
                                size_t *bytes, unsigned short *kinds, unsigned flags, void **depend,
                                void **args)
{
    size_t align = 1;
    size_t need = privates(count, address, bytes, kinds, NULL, &align);
    char *memory = NULL;

    (void)device;
    (void)flags;
    if (need > 0) {
        memory = malloc(need + align);
        if (!memory)
            um_omp_fatal("out of memory");
        privates(count, address, bytes, kinds,
                 (char *)(((uintptr_t)memory + align - 1) / align * align), &align);
    }
    await(depend);
    execute(fn, address, limit_of(args));
    free(memory);
}

UM_OMP_ABI void GOMP_target(int device, um_omp_fn *fn, const void *unused, size_t count,
                            void **address, size_t *bytes, unsigned char *kinds)
{
    (void)device;
    (void)unused;
    (void)count;
    (void)bytes;
    (void)kinds;
    execute(fn, address, 0);
}

/* Data is where it is. */
UM_OMP_ABI void GOMP_target_data(int device, const void *unused, size_t count, void **address,
                                 size_t *bytes, unsigned char *kinds)
{
    (void)device;
    (void)unused;
    (void)count;
    (void)address;
    (void)bytes;
    (void)kinds;
}

UM_OMP_ABI void GOMP_target_data_ext(int device, size_t count, void **address, size_t *bytes,
                                     unsigned short *kinds)
{
    (void)device;
    (void)count;
    (void)address;
    (void)bytes;
    (void)kinds;
}

UM_OMP_ABI void GOMP_target_end_data(void)
{
}

UM_OMP_ABI void GOMP_target_update(int device, const void *unused, size_t count, void **address,
                                   size_t *bytes, unsigned char *kinds)
{
    GOMP_target_data(device, unused, count, address, bytes, kinds);
}

UM_OMP_ABI void GOMP_target_update_ext(int device, size_t count, void **address, size_t *bytes,
                                       unsigned short *kinds, unsigned flags, void **depend)
{
    (void)flags;
    await(depend);
    GOMP_target_data_ext(device, count, address, bytes, kinds);
}

UM_OMP_ABI void GOMP_target_enter_exit_data(int device, size_t count, void **address, size_t *bytes,
                                            unsigned short *kinds, unsigned flags, void **depend)
{
    (void)flags;
    await(depend);
    GOMP_target_data_ext(device, count, address, bytes, kinds);
}

static void say_host(void)
{
    static um_atomic_u32 said;

    if (um_atomic_exchange(&said, 1, relaxed) == 0) /* once */
        fprintf(stderr, "umbra_omp: code for devices is not used: the host executes target\n");
}

UM_OMP_ABI void GOMP_offload_register(const void *table, int kind, const void *data)
{
    (void)table;
    (void)kind;
    (void)data;
    say_host();
}

UM_OMP_ABI void GOMP_offload_register_ver(unsigned version, const void *table, int kind,
                                          const void *data)
{
    (void)version;
    GOMP_offload_register(table, kind, data);
}

UM_OMP_ABI void GOMP_offload_unregister(const void *table, int kind, const void *data)
{
    (void)table;
    (void)kind;
    (void)data;
}

UM_OMP_ABI void GOMP_offload_unregister_ver(unsigned version, const void *table, int kind,
                                            const void *data)
{
    (void)version;
    GOMP_offload_unregister(table, kind, data);
}

/* ---- teams ---- */

static struct um_omp_team *league(void)
{
    struct um_omp_team *team = um_omp_self()->team;

    while (team->outer)
        team = team->outer;
    return team;
}

/* The teams construct outside target: each team in turn; as many as libgomp has by default. */
UM_OMP_ABI void GOMP_teams_reg(um_omp_fn *fn, void *data, unsigned teams, unsigned limit,
                               unsigned flags)
{
    struct um_omp_team *root = league();
    int before = um_omp_self()->task->icv.limit;

    (void)flags;
    if (teams == 0)
        teams = um_omp_settings.teams > 0 ? (unsigned)um_omp_settings.teams : 3;
    limit_set(limit > 0 ? (intptr_t)limit : um_omp_settings.teams_limit);
    root->teams = (int)teams;
    for (root->team = 0; root->team < root->teams; root->team++)
        fn(data);
    root->teams = 1;
    root->team = 0;
    um_omp_self()->task->icv.limit = before;
}

/* Inside target: true while there is one more. */
UM_OMP_ABI bool GOMP_teams4(unsigned least, unsigned most, unsigned limit, bool first)
{
    struct um_omp_team *root = league();

    (void)most;
    if (!first)
        return root->team + 1 < root->teams && ++root->team > 0;
    limit_set((intptr_t)limit);
    root->teams = least > 0 ? (int)least : 1;
    root->team = 0;
    return true;
}

UM_OMP_ABI void GOMP_teams(unsigned teams, unsigned limit)
{
    (void)GOMP_teams4(teams, teams, limit, true);
}

int omp_get_num_teams(void)
{
    return league()->teams;
}

int omp_get_team_num(void)
{
    return league()->team;
}

int omp_get_max_teams(void)
{
    return um_omp_settings.teams;
}

void omp_set_num_teams(int value)
{
    if (value >= 0)
        um_omp_settings.teams = value;
}

int omp_get_teams_thread_limit(void)
{
    return um_omp_settings.teams_limit;
}

void omp_set_teams_thread_limit(int value)
{
    if (value >= 0)
        um_omp_settings.teams_limit = value;
}

/* ---- which device ---- */

int omp_get_num_devices(void)
{
    return 0;
}

int omp_get_initial_device(void)
{
    return 0;
}

int omp_get_device_num(void)
{
    return 0;
}

int omp_is_initial_device(void)
{
    return 1;
}

int omp_get_default_device(void)
{
    return um_omp_self()->task->icv.device;
}

void omp_set_default_device(int value)
{
    um_omp_self()->task->icv.device = value >= 0 ? value : 0;
}

/* ---- memory of devices ---- */

UM_OMP_ABI void *omp_target_alloc(size_t bytes, int device)
{
    return device == omp_get_initial_device() && bytes > 0 ? malloc(bytes) : NULL;
}

UM_OMP_ABI void omp_target_free(void *memory, int device)
{
    (void)device;
    free(memory);
}

UM_OMP_ABI int omp_target_is_present(const void *memory, int device)
{
    (void)memory;
    return device == omp_get_initial_device();
}

UM_OMP_ABI int omp_target_memcpy(void *to, const void *from, size_t bytes, size_t to_at,
                                 size_t from_at, int to_device, int from_device)
{
    if (to_device != omp_get_initial_device() || from_device != omp_get_initial_device())
        return EINVAL;
    memcpy((char *)to + to_at, (const char *)from + from_at, bytes);
    return 0;
}

/* A rectangle of an array, by its first dimension. bytes: of an element. */
static void copy_rectangle(char *to, const char *from, size_t bytes, int dimensions,
                           const size_t *volume, const size_t *to_at, const size_t *from_at,
                           const size_t *to_size, const size_t *from_size)
{
    size_t to_row = bytes, from_row = bytes;

    for (int i = 1; i < dimensions; i++) {
        to_row *= to_size[i];
        from_row *= from_size[i];
    }
    to += to_at[0] * to_row;
    from += from_at[0] * from_row;
    for (size_t i = 0; i < volume[0] && dimensions > 1; i++)
        copy_rectangle(to + i * to_row, from + i * from_row, bytes, dimensions - 1, volume + 1,
                       to_at + 1, from_at + 1, to_size + 1, from_size + 1);
    if (dimensions == 1)
        memcpy(to, from, volume[0] * bytes);
}

UM_OMP_ABI int omp_target_memcpy_rect(void *to, const void *from, size_t bytes, int dimensions,
                                      const size_t *volume, const size_t *to_at,
                                      const size_t *from_at, const size_t *to_size,
                                      const size_t *from_size, int to_device, int from_device)
{
    if (!to && !from)
        return INT32_MAX; /* dimensions that are possible */
    if (dimensions < 1 || to_device != omp_get_initial_device() ||
        from_device != omp_get_initial_device())
        return EINVAL;
    copy_rectangle(to, from, bytes, dimensions, volume, to_at, from_at, to_size, from_size);
    return 0;
}

UM_OMP_ABI int omp_target_associate_ptr(const void *host, const void *memory, size_t bytes,
                                        size_t at, int device)
{
    (void)host;
    (void)memory;
    (void)bytes;
    (void)at;
    (void)device;
    return EINVAL;
}

UM_OMP_ABI int omp_target_disassociate_ptr(const void *host, int device)
{
    (void)host;
    (void)device;
    return EINVAL;
}
