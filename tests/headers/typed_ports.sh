#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# typed_ports.sh COMPILER INCLUDE_DIR
# What is no port, or a message of another type than the port's, does not compile where a typed port's
# calls and branches stand, nor an item of another type in a channel's; the right ones do, in strict C11, and in an initializer at file scope.
set -eu
compiler=$1 include=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compiles STATEMENT: in a function that has ports, messages and other things
compiles()
{
    cat >"$work/user.c" <<EOF
#include <umbra/channel.h>
#include <umbra/port.h>
#include <umbra/sync.h>
struct note { struct umbra_message message; int number; };
struct bill { struct umbra_message message; long amount; };
extern UMBRA_PORT(struct note) notes;
extern UMBRA_CHANNEL(long) longs;
extern struct umbra_port raw;
extern struct umbra_mutex mutex;
extern struct umbra_branch branch[];
struct umbra_branch branch[] = {{UMBRA_RECEIVE(&notes)}, {UMBRA_ITEMS(2, UMBRA_FROM(&raw))}};
int use(struct note *note, struct bill *bill, struct umbra_message *message);
int use(struct note *note, struct bill *bill, struct umbra_message *message)
{
    (void)note, (void)bill, (void)message;
    $1
    return 0;
}
EOF
    "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" \
        "$work/user.c" 2>"$work/said"
}

failed=0
while IFS= read -r statement; do
    compiles "$statement" && continue
    echo "FAIL does not compile: $statement"
    cat "$work/said"
    failed=1
done <<'EOF'
UMBRA_PORT_OPEN(&notes, 3);
long l = 0; const long *c = &l; if (UMBRA_CHANNEL_PUSH(&longs, c, 0) != 0) return UMBRA_CHANNEL_POP(&longs, &l, 0);
if (UMBRA_CHANNEL_OPEN(&longs, 3, UMBRA_CHANNEL_ONE) != 0) return UMBRA_CHANNEL_CLOSE(&longs);
UMBRA_CHANNEL_FINI(&longs);
if (UMBRA_PORT_CLOSE(&notes) != 0) return 1;
if (UMBRA_PORT_POST(&notes, note, UMBRA_NEVER) != 0) return UMBRA_PORT_RECEIVE(&notes, &note, 0);
if (UMBRA_MESSAGE_FROM(&notes, message) || UMBRA_MESSAGE_FROM(&raw, message)) return 1;
struct umbra_branch both = {UMBRA_JOIN(UMBRA_FROM(&notes), UMBRA_FROM(&raw))}; (void)both;
EOF
while IFS= read -r statement; do
    if compiles "$statement"; then
        echo "FAIL compiles: $statement"
        failed=1
    fi
done <<'EOF'
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
