/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of `calls`: communicators, groups, error handlers, and spawns. */
#include "calls.h"

/* ---- what is known of a communicator ---- */

static MPI_Comm parent_comm(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    return parent;
}

static void row_comm_rank(void)
{
    MPI_Comm of[] = {MPI_COMM_WORLD, MPI_COMM_SELF, comm, parent_comm()};
    int is = -1;

    for (int i = 0; i < 4; i++) {
        say_error("is", MPI_Comm_rank(of[i], &is));
        say(" %d", is);
    }
}

static void row_comm_size(void)
{
    MPI_Comm of[] = {MPI_COMM_WORLD, MPI_COMM_SELF, comm, parent_comm()};
    int is = -1;

    for (int i = 0; i < 4; i++) {
        say_error("is", MPI_Comm_size(of[i], &is));
        say(" %d", is);
    }
}

static void row_comm_remote_size(void)
{
    int is = -1;

    say_error("parent", MPI_Comm_remote_size(parent_comm(), &is));
    say(" %d", is);
}

static void row_comm_test_inter(void)
{
    int parent = -1, own = -1;

    MPI_Comm_test_inter(parent_comm(), &parent);
    MPI_Comm_test_inter(comm, &own);
    say(" %d %d", parent, own);
}

static void row_comm_get_parent(void)
{
    MPI_Comm parent = MPI_COMM_NULL;

    say_error("is", MPI_Comm_get_parent(&parent));
    say(" there %d the same %d", parent != MPI_COMM_NULL, parent == parent_comm());
}

static void row_comm_get_attr(void)
{
    static const int keys[] = {MPI_APPNUM, MPI_TAG_UB, MPI_WTIME_IS_GLOBAL};
    int *value, flag;

    for (int i = 0; i < 3; i++) {
        flag = -1;
        say_error("is", MPI_Comm_get_attr(MPI_COMM_WORLD, keys[i], &value, &flag));
        say(" %d", flag);
        if (flag == 1 && keys[i] == MPI_APPNUM)
            say(" %d", *value);
    }
}

static void say_name(MPI_Comm of)
{
    char name[MPI_MAX_OBJECT_NAME] = "?";
    int length = -1;

    say_error("is", MPI_Comm_get_name(of, name, &length));
    say(" '%s' %d", name, length);
}

static void row_comm_get_name(void)
{
    say_name(MPI_COMM_WORLD);
    say_name(MPI_COMM_SELF);
    say_name(parent_comm());
    say_name(comm);
}

static void row_comm_set_name(void)
{
    char name[MPI_MAX_OBJECT_NAME], got[MPI_MAX_OBJECT_NAME];
    MPI_Comm twin;
    int length = -1;

    memset(name, 'x', sizeof(name));
    name[MPI_MAX_OBJECT_NAME - 1] = 0; /* the longest that is allowed */
    say_error("long", MPI_Comm_set_name(comm, name));
    MPI_Comm_get_name(comm, got, &length);
    say(" %d the same %d", length, strcmp(got, name) == 0);
    MPI_Comm_set_name(comm, "short");
    say_name(comm);
    MPI_Comm_dup(comm, &twin);
    say_name(twin);
    MPI_Comm_free(&twin);
}

/* ---- error handlers ---- */

static int first_calls, second_calls, last_class;

static void first_handler(MPI_Comm *of, int *error, ...)
{
    first_calls++;
    MPI_Error_class(*error, &last_class);
    say(" handler of %s", *of == comm ? "comm" : "another");
}

static void second_handler(MPI_Comm *of, int *error, ...)
{
    (void)of;
    (void)error;
    second_calls++;
}

/* What a call returns after a handler of the program has is not said by MPI. */
static void fail(MPI_Comm of)
{
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, of);
    say_error("it was", last_class);
    MPI_Recv(NULL, 0, MPI_INT, 1000, 0, of, MPI_STATUS_IGNORE);
    say_error("then", last_class);
    MPI_Bcast(NULL, 0, MPI_INT, 1000, of);
    say_error("then", last_class);
    say(" calls %d %d", first_calls, second_calls);
}

/* A handler lives as long as a communicator has it, also if the program has freed it. */
static void row_comm_create_errhandler(void)
{
    MPI_Errhandler first, second;
    MPI_Comm twin;

    first_calls = second_calls = 0;
    say_error("made", MPI_Comm_create_errhandler(first_handler, &first));
    MPI_Comm_set_errhandler(comm, first);
    MPI_Errhandler_free(&first);
    MPI_Comm_create_errhandler(second_handler, &second);
    MPI_Comm_dup(comm, &twin);
    MPI_Comm_set_errhandler(twin, second);
    MPI_Errhandler_free(&second);
    fail(comm);
    fail(twin);
    MPI_Comm_free(&twin);
    MPI_Comm_dup(comm, &twin); /* which has that of comm */
    fail(twin);
    MPI_Comm_free(&twin);
}

static void row_comm_set_errhandler(void)
{
    MPI_Errhandler handler;

    first_calls = second_calls = 0;
    MPI_Comm_create_errhandler(first_handler, &handler);
    say_error("set", MPI_Comm_set_errhandler(comm, handler));
    fail(comm);
    say_error("returns", MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&handler);
    fail(comm);
    say_error("returned", MPI_Send(NULL, 0, MPI_INT, 1000, 0, comm));
}

static void row_errhandler_free(void)
{
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(first_handler, &handler);
    say_error("made", MPI_Errhandler_free(&handler));
    say(" null %d", handler == MPI_ERRHANDLER_NULL);
}

static void row_comm_get_errhandler(void)
{
    MPI_Errhandler handler, made;

    say_error("is", MPI_Comm_get_errhandler(comm, &handler));
    say(" returns %d", handler == MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(first_handler, &made);
    MPI_Comm_set_errhandler(comm, made);
    MPI_Comm_get_errhandler(comm, &handler);
    say(" made %d", handler == made);
    MPI_Errhandler_free(&made);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, handler); /* the one that was saved */
    MPI_Errhandler_free(&handler);
    first_calls = 0;
    fail(comm);
    MPI_Comm_get_errhandler(parent_comm(), &handler);
    say(" fatal %d", handler == MPI_ERRORS_ARE_FATAL);
}

/* ---- comparisons, ends ---- */

static const char *name_of(int result)
{
    return result == MPI_IDENT       ? "ident"
           : result == MPI_CONGRUENT ? "congruent"
           : result == MPI_SIMILAR   ? "similar"
           : result == MPI_UNEQUAL   ? "unequal"
                                     : "?";
}

static void compare(MPI_Comm a, MPI_Comm b)
{
    int result = -1;

    say_error("is", MPI_Comm_compare(a, b, &result));
    say(" %s", name_of(result));
}

static void row_comm_compare(void)
{
    MPI_Comm twin, turned, half;

    MPI_Comm_dup(comm, &twin);
    MPI_Comm_split(comm, 0, -rank, &turned);
    MPI_Comm_split(comm, rank == 0, 0, &half);
    compare(comm, comm);
    compare(comm, twin);
    compare(comm, turned);
    compare(comm, half);
    compare(comm, parent_comm());
    compare(parent_comm(), parent_comm());
    compare(MPI_COMM_WORLD, comm);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&turned);
    MPI_Comm_free(&half);
}

/* What was sent on a communicator before its end is received. */
static void row_comm_free(void)
{
    int number = rank, got = -1, to = (rank + 1) % size;
    MPI_Comm twin;
    MPI_Request request;

    MPI_Comm_dup(comm, &twin);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, twin, &request);
    MPI_Send(&number, 1, MPI_INT, to, 1, twin);
    say_error("is", MPI_Comm_free(&twin));
    say(" null %d", twin == MPI_COMM_NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say(" got %d", got);
    twin = MPI_COMM_WORLD;
    say_error("world", MPI_Comm_free(&twin));
}

static void row_comm_disconnect(void)
{
    MPI_Comm twin;

    MPI_Comm_dup(comm, &twin);
    MPI_Barrier(twin);
    say_error("is", MPI_Comm_disconnect(&twin));
    say(" null %d", twin == MPI_COMM_NULL);
}

/* ---- new communicators ---- */

/* The own rank in it, and the sum of the ranks of its members in MPI_COMM_WORLD. */
static void say_members(const char *what, MPI_Comm of)
{
    int is = -1, sum = -1;

    say(" %s", what);
    if (of == MPI_COMM_NULL) {
        say(" null");
        return;
    }
    MPI_Comm_rank(of, &is);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, of);
    say(" %d of sum %d", is, sum);
}

/* Messages on one do not reach the other. */
static void row_comm_dup(void)
{
    int number = 10 + rank, other = 20 + rank, got = -1, to = (rank + 1) % size;
    MPI_Comm twin;

    say_error("is", MPI_Comm_dup(comm, &twin));
    MPI_Send(&number, 1, MPI_INT, to, 1, comm);
    MPI_Send(&other, 1, MPI_INT, to, 1, twin);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE);
    say(" got %d", got);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    say(" got %d", got);
    say_members("members", twin);
    MPI_Comm_free(&twin);
}

static void row_comm_split(void)
{
    MPI_Comm part;

    say_error("turned", MPI_Comm_split(comm, 7, -rank, &part));
    say_members("is", part);
    MPI_Comm_free(&part);
    MPI_Comm_split(comm, rank == 1, 0, &part);
    say_members("two", part);
    MPI_Comm_free(&part);
    MPI_Comm_split(comm, rank == 1 ? MPI_UNDEFINED : 3, 0, &part);
    say_members("without", part);
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
}

static void create(const char *what, MPI_Group all, int count, const int *ranks)
{
    MPI_Group group;
    MPI_Comm made;

    MPI_Group_incl(all, count, ranks, &group);
    say_error(what, MPI_Comm_create(comm, group, &made));
    say_members("is", made);
    if (made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
    MPI_Group_free(&group);
}

static void row_comm_create(void)
{
    static const int turned[] = {2, 0}, rest[] = {1}, all[] = {0, 1, 2};
    MPI_Comm made;
    MPI_Group group;

    MPI_Comm_group(comm, &group);
    create("all", group, 3, all);
    create("turned", group, 2, turned);
    create("none", group, 0, NULL);
    if (rank == 1) /* two groups at the same time */
        create("apart", group, 1, rest);
    else
        create("apart", group, 2, turned);
    say_error("group", MPI_Comm_create(comm, MPI_GROUP_NULL, &made));
    MPI_Group_free(&group);
}

/* ---- groups ---- */

static MPI_Group group_of(int count, const int *ranks)
{
    MPI_Group all, group;

    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, count, ranks, &group);
    MPI_Group_free(&all);
    return group;
}

static void say_group(const char *what, MPI_Group group)
{
    int is = -1, count = -1;

    MPI_Group_rank(group, &is);
    MPI_Group_size(group, &count);
    if (is == MPI_UNDEFINED)
        say(" %s not of %d", what, count);
    else
        say(" %s %d of %d", what, is, count);
}

static void row_comm_group(void)
{
    MPI_Group group;

    say_error("is", MPI_Comm_group(comm, &group));
    say_group("comm", group);
    MPI_Group_free(&group);
    MPI_Comm_group(parent_comm(), &group);
    say_group("parent", group);
    MPI_Group_free(&group);
}

static void row_comm_remote_group(void)
{
    MPI_Group group, own;
    int result = -1;

    say_error("is", MPI_Comm_remote_group(parent_comm(), &group));
    say_group("parent", group);
    MPI_Comm_group(comm, &own);
    MPI_Group_compare(group, own, &result);
    say(" %s", name_of(result));
    MPI_Group_free(&group);
    MPI_Group_free(&own);
}

static void row_group_size(void)
{
    int ranks[] = {2, 1}, is = -1;
    MPI_Group group = group_of(2, ranks);

    say_error("is", MPI_Group_size(group, &is));
    say(" %d", is);
    MPI_Group_size(MPI_GROUP_EMPTY, &is);
    say(" empty %d", is);
    MPI_Group_free(&group);
}

static void row_group_rank(void)
{
    int ranks[] = {2, 1}, is = -1;
    MPI_Group group = group_of(2, ranks);

    say_error("is", MPI_Group_rank(group, &is));
    say_group("turned", group);
    say_group("empty", MPI_GROUP_EMPTY);
    MPI_Group_free(&group);
}

static void row_group_free(void)
{
    int ranks[] = {2, 1};
    MPI_Group group = group_of(2, ranks);

    say_error("is", MPI_Group_free(&group));
    say(" null %d", group == MPI_GROUP_NULL);
    group = group_of(0, NULL);
    say_error("empty", MPI_Group_free(&group));
    say(" null %d", group == MPI_GROUP_NULL);
}

static void row_group_incl(void)
{
    static const int turned[] = {2, 0, 1}, some[] = {1, 0}, wrong[] = {0, 3};
    MPI_Group all = group_of(3, turned), part;

    say_group("turned", all);
    say_error("is", MPI_Group_incl(all, 2, some, &part)); /* of those that are turned */
    say_group("some", part);
    MPI_Group_free(&part);
    MPI_Group_incl(all, 0, NULL, &part);
    say_group("none", part);
    MPI_Group_free(&part);
    say_error("rank", MPI_Group_incl(all, 2, wrong, &part));
    say_error("count", MPI_Group_incl(all, -1, some, &part));
    MPI_Group_free(&all);
}

static void translate(const char *what, MPI_Group from, int count, const int *ranks, MPI_Group to)
{
    int result[4] = {-1, -1, -1, -1};

    say_error(what, MPI_Group_translate_ranks(from, count, ranks, to, result));
    for (int i = 0; i < count; i++)
        if (result[i] < 0)
            say(" %s", result[i] == MPI_UNDEFINED   ? "not"
                       : result[i] == MPI_PROC_NULL ? "nowhere"
                                                    : "?");
        else
            say(" %d", result[i]);
}

static void row_group_translate_ranks(void)
{
    static const int turned[] = {2, 0}, ranks[] = {0, 1, 2, MPI_PROC_NULL}, wrong[] = {0, 3},
                     less[] = {-7};
    MPI_Group some = group_of(2, turned), all;

    MPI_Comm_group(comm, &all);
    translate("is", all, 4, ranks, some);
    translate("back", some, 2, ranks, all);
    translate("empty", all, 3, ranks, MPI_GROUP_EMPTY);
    translate("nowhere", MPI_GROUP_EMPTY, 1, &ranks[3], all);
    translate("none", all, 0, ranks, some);
    translate("rank", all, 2, wrong, some);
    translate("rank", all, 1, less, some);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

static void row_group_compare(void)
{
    static const int ranks[] = {0, 1, 2}, turned[] = {2, 0, 1};
    MPI_Group group[] = {group_of(3, ranks), group_of(3, ranks), group_of(3, turned),
                         group_of(2, ranks), group_of(0, NULL)};

    for (int i = 0; i < 5; i++) {
        int result = -1;

        say_error("is", MPI_Group_compare(group[0], group[i], &result));
        say(" %s", name_of(result));
    }
    for (int i = 0; i < 5; i++)
        MPI_Group_free(&group[i]);
}

const struct row comm_rows[] = {{"MPI_Comm_rank", row_comm_rank},
                                {"MPI_Comm_size", row_comm_size},
                                {"MPI_Comm_remote_size", row_comm_remote_size},
                                {"MPI_Comm_test_inter", row_comm_test_inter},
                                {"MPI_Comm_get_parent", row_comm_get_parent},
                                {"MPI_Comm_get_attr", row_comm_get_attr},
                                {"MPI_Comm_get_name", row_comm_get_name},
                                {"MPI_Comm_set_name", row_comm_set_name},
                                {"MPI_Comm_create_errhandler", row_comm_create_errhandler},
                                {"MPI_Comm_set_errhandler", row_comm_set_errhandler},
                                {"MPI_Comm_get_errhandler", row_comm_get_errhandler},
                                {"MPI_Errhandler_free", row_errhandler_free},
                                {"MPI_Comm_compare", row_comm_compare},
                                {"MPI_Comm_free", row_comm_free},
                                {"MPI_Comm_disconnect", row_comm_disconnect},
                                {"MPI_Comm_dup", row_comm_dup},
                                {"MPI_Comm_split", row_comm_split},
                                {"MPI_Comm_create", row_comm_create},
                                {"MPI_Comm_group", row_comm_group},
                                {"MPI_Comm_remote_group", row_comm_remote_group},
                                {"MPI_Group_size", row_group_size},
                                {"MPI_Group_rank", row_group_rank},
                                {"MPI_Group_free", row_group_free},
                                {"MPI_Group_incl", row_group_incl},
                                {"MPI_Group_translate_ranks", row_group_translate_ranks},
                                {"MPI_Group_compare", row_group_compare},
                                {NULL, NULL}};
