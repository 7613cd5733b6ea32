#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# typed_ports.sh COMPILER INCLUDE_DIR
# What is no port, or a message of another type than the port's, does not compile where a typed port's
# calls and branches stand, nor an item of another type in a channel's; the right ones do, in strict C11
# and in C++ (which has no initializers of branches), and in an initializer at file scope.
set -eu
compiler=$1 include=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compiles LANGUAGE STATEMENT: in a function that has ports, messages and other things
compiles()
{
    cat >"$work/user" <<EOF
#include <umbra/channel.h>
#include <umbra/port.h>
#include <umbra/sync.h>
struct note { struct umbra_message message; int number; };
struct bill { struct umbra_message message; long amount; };
typedef UMBRA_PORT(struct note) note_port;
typedef UMBRA_CHANNEL(long) long_channel;
extern note_port notes;
extern long_channel longs;
extern struct umbra_port raw;
extern struct umbra_mutex mutex;
extern struct umbra_branch branch[];
#ifndef __cplusplus
struct umbra_branch branch[] = {{UMBRA_RECEIVE(&notes)}, {UMBRA_ITEMS(2, UMBRA_FROM(&raw))}};
#endif
int use(struct note *note, struct bill *bill, struct umbra_message *message);
int use(struct note *note, struct bill *bill, struct umbra_message *message)
{
    (void)note, (void)bill, (void)message;
    $2
    return 0;
}
EOF
    "$compiler" -x "${1%[17][17]}" -std="$1" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" \
        - <"$work/user" 2>"$work/said"
}

languages=c11
! "$compiler" -x c++ -std=c++17 -fsyntax-only -include cstddef - </dev/null 2>/dev/null ||
    languages='c11 c++17'

# each FUNCTION: of each statement in the input, in each language that has it.
each()
{
    while IFS= read -r statement; do
        for language in $languages; do
            case $language$statement in
                c++*umbra_branch*) ;;
                *) "$1" ;;
            esac
        done
    done
}

must_compile()
{
    compiles "$language" "$statement" && return
    echo "FAIL does not compile as $language: $statement"
    cat "$work/said"
    failed=1
}

must_not_compile()
{
    compiles "$language" "$statement" || return 0
    echo "FAIL compiles as $language: $statement"
    failed=1
}

failed=0
each must_compile <<'EOF'
UMBRA_PORT_OPEN(&notes, 3);
long l = 0; const long *c = &l; if (UMBRA_CHANNEL_PUSH(&longs, c, 0) != 0) return UMBRA_CHANNEL_POP(&longs, &l, 0);
if (UMBRA_CHANNEL_OPEN(&longs, 3, UMBRA_CHANNEL_ONE) != 0) return UMBRA_CHANNEL_CLOSE(&longs);
UMBRA_CHANNEL_FINI(&longs);
if (UMBRA_PORT_CLOSE(&notes) != 0) return 1;
if (UMBRA_PORT_POST(&notes, note, UMBRA_NEVER) != 0) return UMBRA_PORT_RECEIVE(&notes, &note, 0);
if (UMBRA_MESSAGE_FROM(&notes, message) || UMBRA_MESSAGE_FROM(&raw, message)) return 1;
struct umbra_branch both = {UMBRA_JOIN(UMBRA_FROM(&notes), UMBRA_FROM(&raw))}; (void)both;
EOF
each must_not_compile <<'EOF'
UMBRA_PORT_CLOSE(&raw);
int i = 0; return UMBRA_CHANNEL_PUSH(&longs, &i, 0);
int i = 0; return UMBRA_CHANNEL_POP(&longs, &i, 0);
UMBRA_CHANNEL_CLOSE(&notes);
UMBRA_PORT_CLOSE(&mutex);
UMBRA_PORT_OPEN(&mutex, 1);
UMBRA_PORT_POST(&notes, bill, UMBRA_NEVER);
UMBRA_PORT_RECEIVE(&notes, &bill, 0);
struct umbra_branch other = {UMBRA_RECEIVE(&mutex)}; (void)other;
struct umbra_branch other = {UMBRA_JOIN(UMBRA_FROM(&notes), UMBRA_FROM(note))}; (void)other;
return UMBRA_MESSAGE_FROM(&mutex, message);
EOF
exit $failed
