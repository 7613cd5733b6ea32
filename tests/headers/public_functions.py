#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the public functions are few, and that each has a user: public_functions.py ROOT

Public are the functions named umbra_ or shadow_ that a header in include/ declares, and the macros
that are named like functions. A user is an example, a benchmark, a tool, a document or a test.
"""
import pathlib
import re
import sys

# What came after the interface was cut to 130 functions; a new module says here what it adds.
ADDED = {"umbra/memory.h": 14, "the gaps between polls (umbra/wait.h)": 1,
         "limits of tasks (umbra/task.h)": 3, "umbra/blocking.h": 1,
         "channels (umbra/channel.h)": 5, "umbra/io.h": 6, "umbra/team.h": 5, "umbra_poll": 1,
         "umbra/trace.h": 1, "umbra_port_receive_some": 1}
MOST = 130 + sum(ADDED.values())
DECLARATION = re.compile(
    r"^(?:UM_INLINE|UM_ALWAYS_INLINE|UM_LINKONCE)\b[^;{}()]*?\b((?:umbra|shadow)_\w+)\s*\(", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+((?:umbra|shadow)_\w+)\(", re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
USERS = ["examples", "bench", "tools", "docs", "tests", "README.md"]


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
            if file.is_file() and file != pathlib.Path(__file__).resolve():
                words.update(re.findall(r"\b(?:umbra|shadow)_\w+", file.read_text(errors="ignore")))
    return words


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = public_functions(root / "include")
    unused = sorted(names - words_of_users(root))
    if not names:
        sys.exit(f"{root}: no public function found")
    for name in unused:
        print(f"{name}: no example, benchmark, tool, document or test uses it", file=sys.stderr)
    if len(names) > MOST:
        print(f"{len(names)} public functions, but at most {MOST} are wanted:", *sorted(names),
              file=sys.stderr)
    else:
        print(f"{len(names)} public functions")
    sys.exit(bool(unused) or len(names) > MOST)


if __name__ == "__main__":
    main()
