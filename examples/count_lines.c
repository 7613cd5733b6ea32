/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Counts the lines of files, a fiber for each file, all on one core. Reading blocks, so it is done
 * on helper threads (umbra/blocking.h); meanwhile a fiber of the same core counts how often it had
 * its turn.
 *
 *     count_lines FILE...
 *
 * Exit status: 0; 1 a file cannot be read; 2 no file is named.
 */
#include <umbra/blocking.h>

#include "program.h"

const char program_name[] = "count_lines";

struct file {
    const char *name;
    size_t lines;
    int error; /* of reading: an errno, since the fiber's is not the helper's */
};

struct files {
    size_t count;
    struct file file[];
};

/* On a helper thread. */
static void read_file(void *arg)
{
    struct file *file = arg;
    FILE *stream;
    char bytes[65536];
    size_t got;

    errno = 0;
    stream = fopen(file->name, "rb");
    if (!stream) {
        file->error = errno;
        return;
    }
    while ((got = fread(bytes, 1, sizeof(bytes), stream)) > 0)
        for (size_t i = 0; i < got; i++)
            file->lines += bytes[i] == '\n';
    if (ferror(stream))
        file->error = errno ? errno : EIO;
    fclose(stream);
}

static void *count_file(void *arg)
{
    struct file *file = arg;
    int error = umbra_blocking(read_file, file);

    if (error != 0)
        file->error = -error;
    return NULL;
}

static void *tick(void *turns)
{
    while (!umbra_canceled()) {
        ++*(size_t *)turns;
        umbra_yield();
    }
    return NULL;
}

static void *count_all(void *arg)
{
    struct files *files = arg;
    struct umbra_fiber *fiber = calloc(files->count, sizeof(*fiber));
    struct umbra_fiber ticker;
    size_t turns = 0;
    int error = fiber ? umbra_spawn(tick, &turns, &ticker) : -ENOMEM;

    if (error != 0) {
        fprintf(stderr, "%s: %s\n", program_name, error_text(error));
        exit(1);
    }
    for (size_t i = 0; i < files->count; i++)
        files->file[i].error = -umbra_spawn(count_file, &files->file[i], &fiber[i]);
    for (size_t i = 0; i < files->count; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    umbra_cancel(ticker);
    umbra_join(ticker, UMBRA_NEVER, NULL);
    free(fiber);
    fprintf(stderr, "meanwhile another fiber of the core had %zu turns\n", turns);
    return NULL;
}

static int print_counts(const struct files *files)
{
    int status = 0;

    for (size_t i = 0; i < files->count; i++) {
        const struct file *file = &files->file[i];

        if (file->error == 0) {
            printf("%s: %zu lines\n", file->name, file->lines);
        } else {
            fprintf(stderr, "%s: %s: %s\n", program_name, file->name, strerror(file->error));
            status = 1;
        }
    }
    return printed(status);
}

int main(int argc, char **argv)
{
    struct umbra_options options = {.cores = 1};
    struct files *files;
    int error;
    int status;

    if (argc < 2) {
        fprintf(stderr, "%s: name at least one file\n", program_name);
        return 2;
    }
    files = calloc(1, sizeof(*files) + (size_t)(argc - 1) * sizeof(files->file[0]));
    if (!files)
        return 1;
    for (int i = 1; i < argc; i++)
        files->file[files->count++].name = argv[i];
    error = umbra_run(&options, count_all, files);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", program_name, error_text(error));
        return 1;
    }
    status = print_counts(files);
    free(files);
    return status;
}
