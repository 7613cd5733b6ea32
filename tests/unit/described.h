/* SPDX-License-Identifier: BSL-1.0 */
/* Described machines for tests: some processors hidden, some cores little ones. */
#ifndef UMBRA_TESTS_DESCRIBED_H
#define UMBRA_TESTS_DESCRIBED_H

#include <runner.h>

#include <umbra/topology.h>

#include <hwloc.h>
#include <hwloc/export.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline struct umbra_topology *described(const char *synthetic)
{
    struct umbra_topology_options options = {.synthetic = synthetic};
    struct umbra_topology *topology = NULL;
    int result = umbra_topology_create(&options, &topology);

    cr_assert_eq(result, 0, "%s: %d", synthetic, result);
    return topology;
}

/* Writes a text to a new temporary file and its name to path. */
static inline void write_file(char path[32], const char *text)
{
    int fd;

    strcpy(path, "/tmp/umbra-topology-XXXXXX");
    fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline struct umbra_topology *from_xml(const char *text)
{
    struct umbra_topology *topology = NULL;
    char path[32];
    int result;

    write_file(path, text);
    result = umbra_topology_create(&(struct umbra_topology_options){.xml = path}, &topology);
    unlink(path);
    cr_assert_eq(result, 0, "%d", result);
    return topology;
}

/* Makes the processors of a list little cores and all others big ones; after the word "unranked"
 * two kinds of which none is known to be faster. Skips where hwloc knows no kinds. */
static inline void register_kinds(hwloc_topology_t hw, const char *little)
{
#if HWLOC_API_VERSION >= 0x00020400
    bool ranked = strncmp(little, "unranked ", 9) != 0;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    struct hwloc_info_s name = {(char *)"Colour", (char *)"red"};

    hwloc_bitmap_list_sscanf(set, ranked ? little : little + 9);
    cr_assert_eq(hwloc_cpukinds_register(hw, set, ranked ? 10 : -1, 1, &name, 0), 0);
    hwloc_bitmap_andnot(set, hwloc_topology_get_complete_cpuset(hw), set);
    name.value = (char *)"blue";
    cr_assert_eq(hwloc_cpukinds_register(hw, set, ranked ? 20 : -1, 1, &name, 0), 0);
    hwloc_bitmap_free(set);
    cr_assert_eq(hwloc_cpukinds_get_nr(hw, 0), 2);
#else
    (void)hw;
    (void)little;
    cr_skip_test("this hwloc knows no kinds of cores");
#endif
}

/* A machine of which some processors are allowed, as in a cpuset. little: as above, or NULL. */
static inline struct umbra_topology *described_with(const char *synthetic, const char *allowed,
                                                    const char *little)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    struct umbra_topology *topology;
    hwloc_topology_t hw;
    char *text;
    int bytes;

    hwloc_bitmap_list_sscanf(set, allowed);
    cr_assert_eq(hwloc_topology_init(&hw), 0);
    hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_synthetic(hw, synthetic);
    cr_assert_eq(hwloc_topology_load(hw), 0);
    if (little)
        register_kinds(hw, little);
    cr_assert_eq(hwloc_topology_allow(hw, set, NULL, HWLOC_ALLOW_FLAG_CUSTOM), 0);
    cr_assert_eq(hwloc_topology_export_xmlbuffer(hw, &text, &bytes, 0), 0);
    topology = from_xml(text);
    hwloc_free_xmlbuffer(hw, text);
    hwloc_topology_destroy(hw);
    hwloc_bitmap_free(set);
    return topology;
}

#endif
