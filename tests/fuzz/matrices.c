/* SPDX-License-Identifier: BSL-1.0 */
/* Matrix Market files, as examples/gauss reads them. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <errno.h>
#include <math.h>

#include "../../examples/gauss/system.h"

#define LARGE 100 /* equations */

static int entries_read(struct mm_reader *reader)
{
    struct mm_entry entry;
    int got;

    while ((got = mm_next(reader, &entry)) == 1)
        HOLDS(entry.row < reader->rows && entry.column < reader->columns && isfinite(entry.value));
    return got;
}

/* As gauss.c does, which refuses what is not square. */
static int system_of(struct mm_reader *reader)
{
    struct system system;
    int got = system_create(&system, reader->rows);

    if (got == 0)
        got = system_read(&system, reader);
    system_destroy(&system);
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mm_reader reader;
    int error = mm_open(&reader, fuzz_file(data, size));

    if (error == 0)
        error = reader.rows == reader.columns && reader.rows < LARGE ? system_of(&reader)
                                                                     : entries_read(&reader);
    HOLDS(error == 0 || error == -EINVAL || error == -ENOMEM);
    HOLDS(error != -EINVAL || (reader.problem[0] && memchr(reader.problem, 0, 1024)));
    mm_close(&reader);
    return 0;
}
