/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A table of each function that libumbra_mpi.so exports, and what a program sees of it: values,
 * statuses, classes of errors. Compiled without any knowledge of Umbra. test_calls.sh runs it with
 * MPICH alone, where the children are processes, and under the library, where they are fibers or
 * processes: the output must be the same. What MPICH does not define, or does not survive, is not
 * in it.
 *
 *     calls          spawns three children, which run the table; each prints a line for each row
 *     calls abort    ends with status 7, by MPI_Abort()
 *     calls list     prints the names of all rows
 */
#include <stdarg.h>

#include "calls.h"

#define CHILDREN 3

int rank = -1, size;
char *program;
MPI_Comm comm;

static char line[4096];
static size_t length;

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    length += (size_t)vsnprintf(line + length, sizeof(line) - length, format, args);
    va_end(args);
    if (length >= sizeof(line)) {
        fprintf(stderr, "calls: a line is too long: %.60s\n", line);
        exit(1);
    }
}

/* One write for a line: lines of several processes are not mixed up. */
static void say_end(void)
{
    line[length++] = '\n';
    fwrite(line, 1, length, stdout);
    fflush(stdout);
    length = 0;
}

static void say_begin(const char *name)
{
    say("%s %d:", name, rank);
}

void say_error(const char *what, int error)
{
    static const struct {
        int class;
        const char *name;
    } names[] = {
        {MPI_SUCCESS, "ok"},        {MPI_ERR_COUNT, "count"}, {MPI_ERR_TYPE, "type"},
        {MPI_ERR_TAG, "tag"},       {MPI_ERR_COMM, "comm"},   {MPI_ERR_RANK, "rank"},
        {MPI_ERR_ROOT, "root"},     {MPI_ERR_GROUP, "group"}, {MPI_ERR_OP, "op"},
        {MPI_ERR_BUFFER, "buffer"}, {MPI_ERR_ARG, "arg"},     {MPI_ERR_TRUNCATE, "truncate"},
        {MPI_ERR_SPAWN, "spawn"}};
    int class;

    MPI_Error_class(error, &class);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].class == class) {
            say(" %s %s", what, names[i].name);
            return;
        }
    say(" %s error %d", what, class);
}

void say_numbers(const char *what, const int *numbers, int count)
{
    say(" %s", what);
    for (int i = 0; i < count; i++)
        say("%c%d", i == 0 ? ' ' : ',', numbers[i]);
}

static void say_rank(int of)
{
    if (of == MPI_ANY_SOURCE || of == MPI_PROC_NULL)
        say(" from %s", of == MPI_ANY_SOURCE ? "any" : "nowhere");
    else
        say(" from %d", of);
}

void say_status(const char *what, const MPI_Status *status)
{
    int count, cancelled;

    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    say(" [%s", what);
    if (cancelled) { /* then nothing else is defined */
        say(" cancelled]");
        return;
    }
    say_rank(status->MPI_SOURCE);
    if (status->MPI_TAG == MPI_ANY_TAG)
        say(" any tag");
    else
        say(" tag %d", status->MPI_TAG);
    say(" %d]", count);
}

void fill(int *numbers, int count, int factor)
{
    for (int i = 0; i < count; i++)
        numbers[i] = factor * (i + 1);
}

long sum_of(const int *numbers, int count)
{
    long sum = 0;

    for (int i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}

MPI_Datatype sparse_type(int count)
{
    MPI_Datatype type;

    MPI_Type_vector(count, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* ---- begin and end, which cannot be rows among others ---- */

static const char *const start_names[] = {"MPI_Init",         "MPI_Init_thread", "MPI_Initialized",
                                          "MPI_Query_thread", "MPI_Finalize",    "MPI_Finalized",
                                          "MPI_Abort"};

static void say_state(const char *when)
{
    int begun = -1, ended = -1;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    say(" %s %d %d", when, begun, ended);
}

/* A line for the beginning of a task. The rank is not known before. */
static void begin(int *argc, char ***argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};
    bool threads = *argc > 3 && strcmp((*argv)[2], "threads") == 0;
    int level = -1, asked = -1;

    say("%s", threads ? "MPI_Init_thread" : "MPI_Init");
    say_state("before");
    if (threads)
        MPI_Init_thread(argc, argv, levels[(*argv)[3][0] - '0'], &level);
    else
        MPI_Init(argc, argv);
    MPI_Query_thread(&asked);
    say(" level %d %d", level, asked);
    say_state("then");
    say_end();
}

/* ---- main ---- */

static const struct row *const parts[] = {message_rows, request_rows, collect_rows, comm_rows,
                                          spawn_rows};

static void list(void)
{
    for (size_t i = 0; i < sizeof(start_names) / sizeof(start_names[0]); i++)
        puts(start_names[i]);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const struct row *row = parts[i]; row->name; row++)
            puts(row->name);
}

static void run_rows(const struct row *row)
{
    for (; row->name; row++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        say_begin(row->name);
        row->run();
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        say_end();
    }
}

static int run_child(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && argc == 2; i++)
        run_rows(parts[i]);
    say_begin("MPI_Finalize");
    MPI_Finalize();
    say_state("after");
    say_end();
    return 0;
}

/* The other side of what the children do; then children that ask for threads. */
static int run_parent(int argc, char **argv)
{
    char *with[] = {(char *)"child", NULL};
    char *threads[] = {(char *)"child", (char *)"threads", NULL, NULL};
    char levels[][2] = {"0", "1", "2", "3"};
    MPI_Comm children;

    begin(&argc, &argv);
    MPI_Comm_spawn(program, with, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    say_begin("MPI_Intercomm_merge");
    between(children, true);
    say_end();
    for (int i = 0; i < 4; i++) {
        threads[2] = levels[i];
        MPI_Comm_spawn(program, threads, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&children);
    }
    say_begin("MPI_Finalize");
    MPI_Finalize();
    say_state("after");
    say_end();
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    program = argv[0];
    if (strcmp(what, "list") == 0) {
        list();
        return 0;
    }
    if (strcmp(what, "child") == 0)
        return run_child(argc, argv);
    if (strcmp(what, "grandchild") == 0)
        return run_grandchild(argc, argv);
    if (strcmp(what, "abort") != 0)
        return run_parent(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Abort(MPI_COMM_WORLD, 7);
    return 0;
}
