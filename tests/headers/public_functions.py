#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the public functions are few, each has a user, and each thing has one form:
public_functions.py ROOT

Public are the functions named umbra_ or shadow_ that a header in include/ declares, and the macros
that are named like functions. A user is an example, a benchmark, a program, a tool or a document,
also by a macro of the headers; a test is none.
"""
import pathlib
import re
import sys

MOST = 154  # a new module says here what it adds
# A wait takes a deadline as a parameter: these have a form without, which cannot fail or is the paper's.
DEADLINES = {"umbra_deadline", "umbra_shadow_join_deadline", "umbra_mutex_lock_deadline",
             "umbra_rwlock_read_deadline", "umbra_rwlock_write_deadline"}
# An object's initial value is all zero, or a macro's: these allocate, or may refuse their options.
INITS = {"umbra_channel_init", "umbra_prefetch_init", "umbra_wait_policy_init"}
DECLARATION = re.compile(
    r"^(?:UM_INLINE|UM_ALWAYS_INLINE|UM_LINKONCE)\b[^;{}()]*?\b((?:umbra|shadow)_\w+)\s*\(", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+((?:umbra|shadow)_\w+)\(", re.M)
ANY_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:.*\\\n)*.*)$", re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
USERS = ["examples", "bench", "tools", "mpi", "packaging", "docs", "README.md"]


def public_functions(include):
    names = set()
    for header in sorted(include.rglob("*.h")):
        text = COMMENT.sub(" ", header.read_text())
        names.update(MACRO.findall(text))
        names.update(DECLARATION.findall(DIRECTIVE.sub("", text)))
    return names


def words_of_users(root):
    words = set()
    for user in USERS:
        path = root / user
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                words.update(re.findall(r"\w+", file.read_text(errors="ignore")))
    return words


def expanded(words, include):
    """The words, and those of the headers' macros among them."""
    macros = {}
    for header in sorted(include.rglob("*.h")):
        for name, body in ANY_MACRO.findall(COMMENT.sub(" ", header.read_text())):
            macros.setdefault(name, set()).update(re.findall(r"\w+", body))
    todo = words & macros.keys()
    words = set(words)
    while todo:
        more = macros[todo.pop()] - words
        words |= more
        todo |= more & macros.keys()
    return words


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = public_functions(root / "include")
    wrong = [f"{name}: no example, benchmark, program, tool or document uses it"
             for name in sorted(names - expanded(words_of_users(root), root / "include"))]
    wrong += [f"{name}: a second form of a wait: deadlines are parameters"
              for name in sorted(names - DEADLINES) if name.endswith("_deadline")]
    wrong += [f"{name}: a second form of an initial value"
              for name in sorted(names - INITS) if name.endswith("_init")]
    if not names:
        wrong = [f"{root}: no public function found"]
    if len(names) > MOST:
        wrong.append(f"{len(names)} public functions, but at most {MOST} are wanted: "
                     + " ".join(sorted(names)))
    print(f"{len(names)} public functions")
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
