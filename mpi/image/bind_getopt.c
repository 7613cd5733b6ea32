/* SPDX-License-Identifier: BSL-1.0 */
/*
 * getopt() for children: the C library keeps its place in the arguments in hidden variables, one
 * for all. Behaves as glibc's: arguments that are no options are moved to the end, unless the
 * letters begin with '+' (stop at the first) or '-' (give it as the argument of letter 1), or
 * POSIXLY_CORRECT is set.
 */
#define _GNU_SOURCE
#include <getopt.h>

#include "bind.h"

struct um_getopt {
    char *argument;           /* if the executable names none of the four */
    int index, print, letter; /* optind, opterr, optopt */
    const char *rest;         /* of the group of letters that is read, or NULL */
    int first, last;          /* no options, that were passed: argv[first] to argv[last - 1] */
    bool begun;
};

/* One call. */
struct call {
    struct um_getopt *state;
    char **optarg;
    int *optind, *opterr, *optopt;
    int argc;
    char **argv;
    const char *letters;
    const struct option *longs;
    int *which;
    char order; /* '+', '-', or 0: move */
    bool colon; /* a missing argument is ':', and nothing is printed */
    bool only;  /* getopt_long_only() */
};

static struct um_getopt *state_of(struct umbra_child *child)
{
    if (!child->getopt) {
        child->getopt = calloc(1, sizeof(*child->getopt));
        if (!child->getopt)
            um_bind_abort(); /* getopt() cannot fail */
        child->getopt->index = child->getopt->print = 1;
        child->getopt->letter = '?';
    }
    return child->getopt;
}

__attribute__((__format__(__printf__, 2, 3))) static void complain(const struct call *call,
                                                                   const char *format, ...)
{
    va_list args;

    if (!*call->opterr || call->colon)
        return;
    fprintf(stderr, "%s: ", call->argv[0]);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    putc('\n', stderr);
}

/* ---- moving what is no option ---- */

static void reverse(char **argv, int low, int high)
{
    while (low < --high) {
        char *kept = argv[low];

        argv[low++] = argv[high];
        argv[high] = kept;
    }
}

/* Moves the options between `last` and optind in front of those that are none. */
static void move(struct call *call)
{
    struct um_getopt *state = call->state;
    int options = *call->optind - state->last;

    reverse(call->argv, state->first, state->last);
    reverse(call->argv, state->last, *call->optind);
    reverse(call->argv, state->first, *call->optind);
    state->first += options;
    state->last = *call->optind;
}

static bool is_option(const char *text)
{
    return text[0] == '-' && text[1] != 0;
}

/* Goes to the next option. Returns 0, or what the call returns: -1, or 1 for an argument. */
static int advance(struct call *call)
{
    struct um_getopt *state = call->state;

    if (state->last > *call->optind)
        state->last = *call->optind;
    if (state->first > *call->optind)
        state->first = *call->optind;
    if (call->order == 0) {
        if (state->first != state->last && state->last != *call->optind)
            move(call);
        else if (state->last != *call->optind)
            state->first = *call->optind;
        while (*call->optind < call->argc && !is_option(call->argv[*call->optind]))
            ++*call->optind;
        state->last = *call->optind;
    }
    if (*call->optind < call->argc && strcmp(call->argv[*call->optind], "--") == 0) {
        ++*call->optind;
        if (state->first != state->last && state->last != *call->optind)
            move(call);
        else if (state->first == state->last)
            state->first = *call->optind;
        state->last = *call->optind = call->argc;
    }
    if (*call->optind >= call->argc) {
        if (state->first != state->last)
            *call->optind = state->first;
        return -1;
    }
    if (is_option(call->argv[*call->optind]))
        return 0;
    if (call->order != '-')
        return -1;
    *call->optarg = call->argv[(*call->optind)++];
    return 1;
}

/* ---- long options ---- */

/* True if it matters which of the two is meant. */
static bool differ(const struct call *call, const struct option *a, const struct option *b)
{
    return call->only || a->has_arg != b->has_arg || a->flag != b->flag || a->val != b->val;
}

/* The option that a name means, by an unambiguous beginning, too. */
static const struct option *long_named(const struct call *call, const char *name, size_t length,
                                       bool *ambiguous)
{
    const struct option *found = NULL;

    *ambiguous = false;
    for (const struct option *o = call->longs; o->name; o++) {
        if (strncmp(o->name, name, length) != 0)
            continue;
        if (strlen(o->name) == length) {
            *ambiguous = false;
            return o;
        }
        if (found && differ(call, found, o))
            *ambiguous = true;
        if (!found)
            found = o;
    }
    return found;
}

/* found: the first of those that may be meant. */
static void complain_ambiguous(const struct call *call, const char *dashes, const char *name,
                               size_t length, const struct option *found)
{
    if (!*call->opterr || call->colon)
        return;
    flockfile(stderr);
    fprintf(stderr, "%s: option '%s%s' is ambiguous; possibilities:", call->argv[0], dashes, name);
    for (const struct option *o = found; o->name; o++)
        if (strncmp(o->name, name, length) == 0 && (o == found || differ(call, found, o)))
            fprintf(stderr, " '%s%s'", dashes, o->name);
    putc('\n', stderr);
    funlockfile(stderr);
}

/* Takes the argument of a long option. False: missing, or not wanted. */
static bool long_argument(struct call *call, const struct option *o, const char *dashes,
                          const char *equals)
{
    if (equals && o->has_arg == no_argument) {
        complain(call, "option '%s%s' doesn't allow an argument", dashes, o->name);
        return false;
    }
    if (equals)
        *call->optarg = (char *)(uintptr_t)equals + 1;
    else if (o->has_arg == required_argument && *call->optind < call->argc)
        *call->optarg = call->argv[(*call->optind)++];
    else if (o->has_arg == required_argument) {
        complain(call, "option '%s%s' requires an argument", dashes, o->name);
        return false;
    }
    return true;
}

/* Reads a long option. -1: it is none, but may be letters. */
static int long_option(struct call *call, const char *dashes)
{
    const char *name = call->state->rest;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    bool ambiguous;
    const struct option *o = long_named(call, name, length, &ambiguous);

    if (!o && dashes[1] == 0 && strchr(call->letters, *name))
        return -1;
    call->state->rest = NULL;
    ++*call->optind;
    *call->optopt = 0;
    if (ambiguous || !o) {
        if (ambiguous)
            complain_ambiguous(call, dashes, name, length, o);
        else
            complain(call, "unrecognized option '%s%s'", dashes, name);
        return '?';
    }
    if (!long_argument(call, o, dashes, equals)) {
        *call->optopt = o->val;
        return call->colon && !equals ? ':' : '?';
    }
    if (call->which)
        *call->which = (int)(o - call->longs);
    if (!o->flag)
        return o->val;
    *o->flag = o->val;
    return 0;
}

/* ---- letters ---- */

/* Takes the argument of a letter; the group of letters ends with it. */
static int letter_argument(struct call *call, const char *known, int letter)
{
    struct um_getopt *state = call->state;
    const char *rest = state->rest;

    state->rest = NULL;
    if (*rest) {
        *call->optarg = (char *)(uintptr_t)rest;
        ++*call->optind;
    } else if (known[2] == ':') {
        ++*call->optind;
    } else if (*call->optind + 1 < call->argc) {
        *call->optarg = call->argv[*call->optind + 1];
        *call->optind += 2;
    } else {
        ++*call->optind;
        complain(call, "option requires an argument -- '%c'", letter);
        *call->optopt = letter;
        return call->colon ? ':' : '?';
    }
    return letter;
}

/* The letters "W;": -W name is --name. */
static int letter_long(struct call *call)
{
    struct um_getopt *state = call->state;

    if (*state->rest == 0 && ++*call->optind == call->argc) {
        state->rest = NULL;
        complain(call, "option requires an argument -- '%c'", 'W');
        *call->optopt = 'W';
        return call->colon ? ':' : '?';
    }
    if (*state->rest == 0)
        state->rest = call->argv[*call->optind];
    call->only = false;
    return long_option(call, "-W ");
}

static int next_letter(struct call *call)
{
    struct um_getopt *state = call->state;
    int letter = *state->rest++;
    const char *known = letter == ':' || letter == ';' ? NULL : strchr(call->letters, letter);

    if (known && known[1] == ':')
        return letter_argument(call, known, letter);
    if (known && letter == 'W' && known[1] == ';' && call->longs)
        return letter_long(call);
    if (*state->rest == 0) {
        state->rest = NULL;
        ++*call->optind;
    }
    if (known)
        return letter;
    complain(call, "invalid option -- '%c'", letter);
    *call->optopt = letter;
    return '?';
}

/* ---- one call ---- */

static void begin(struct call *call)
{
    struct um_getopt *state = call->state;

    if (*call->optind == 0 || !state->begun) {
        if (*call->optind == 0)
            *call->optind = 1;
        state->first = state->last = *call->optind;
        state->rest = NULL;
        state->begun = true;
    }
    if (*call->letters == '-' || *call->letters == '+')
        call->order = *call->letters++;
    else if (um_bind_getenv("POSIXLY_CORRECT"))
        call->order = '+';
    call->colon = *call->letters == ':';
    *call->optarg = NULL;
}

static int next(struct call *call)
{
    struct um_getopt *state = call->state;
    int result = 0;

    begin(call);
    if (!state->rest) {
        const char *text;

        result = advance(call);
        if (result != 0)
            return result;
        text = call->argv[*call->optind];
        state->rest = text + 1;
        if (call->longs && text[1] == '-') {
            state->rest = text + 2;
            return long_option(call, "--");
        }
        if (call->longs && call->only && (text[2] || !strchr(call->letters, text[1]))) {
            result = long_option(call, "-");
            if (result != -1)
                return result;
        }
    }
    return next_letter(call);
}

static int getopt_of_child(int argc, char *const *argv, const char *letters,
                           const struct option *longs, int *which, bool only)
{
    struct umbra_child *child = um_child_self();
    struct um_getopt *state = state_of(child);
    struct call call = {
        .state = state,
        .optarg = um_variable(child, UM_OPTARG, &state->argument),
        .optind = um_variable(child, UM_OPTIND, &state->index),
        .opterr = um_variable(child, UM_OPTERR, &state->print),
        .optopt = um_variable(child, UM_OPTOPT, &state->letter),
        .argc = argc,
        .argv = (char **)(uintptr_t)argv,
        .letters = letters,
        .longs = longs,
        .which = which,
        .only = only,
    };

    return argc < 1 ? -1 : next(&call);
}

int um_bind_getopt(int argc, char *const *argv, const char *letters)
{
    return getopt_of_child(argc, argv, letters, NULL, NULL, false);
}

int um_bind_getopt_long(int argc, char *const *argv, const char *letters,
                        const struct option *longs, int *index)
{
    return getopt_of_child(argc, argv, letters, longs, index, false);
}

int um_bind_getopt_long_only(int argc, char *const *argv, const char *letters,
                             const struct option *longs, int *index)
{
    return getopt_of_child(argc, argv, letters, longs, index, true);
}
