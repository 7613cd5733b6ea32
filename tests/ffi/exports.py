#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What libumbra.so exports: exports.py ROOT LIBRARY

Every public function, those that are inline in C as well; the size of each struct that callers
allocate; nothing whose name is not Umbra's.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

ROOT, LIBRARY = pathlib.Path(sys.argv[1]), sys.argv[2]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
DECLARATION = re.compile(r"^(?:UM_INLINE|UM_ALWAYS_INLINE|UM_LINKONCE)\b([^;{}()]*?)"
                         r"\b((?:umbra|shadow)_\w+)\s*\(([^;{]*)\)\s*[;{]", re.M)
# They are taken, too: a message by macros over types, sources in a branch.
ALSO_TAKEN = {"message", "source"}
# What a function passes to the caller's functions, and no caller allocates.
NOT_ALLOCATED = {"worker"}


def declarations():
    """Of each public function: what stands before its name, the name, the arguments."""
    for header in sorted((ROOT / "include").rglob("*.h")):
        yield from DECLARATION.findall(DIRECTIVE.sub("", COMMENT.sub(" ", header.read_text())))


def allocated():
    """The structs whose address a public function takes, and that no public function makes."""
    taken, made = set(), set()
    for before, _, arguments in declarations():
        made.update(re.findall(r"struct umbra_(\w+) \*", before))
        for name, stars in re.findall(r"struct umbra_(\w+) (\*+)", arguments):
            (taken if stars == "*" else made).add(name)
    return (taken - made - NOT_ALLOCATED) | ALSO_TAKEN


def exported():
    table = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE, text=True,
                           check=True)
    return {line.split()[-1].split("@")[0] for line in table.stdout.splitlines()}


class Exports(unittest.TestCase):
    def test_all_public_functions(self):
        public = {name for _, name, _ in declarations()}
        self.assertGreater(len(public), 100)
        self.assertEqual(public - exported(), set())

    def test_nothing_else(self):
        self.assertEqual({name for name in exported() if not re.match("umbra_|shadow_|um_", name)}, set())

    def test_sizes_of_what_callers_allocate(self):
        sizes = {name for name in exported() if name.startswith("umbra_sizeof_")}
        self.assertEqual(sizes, {f"umbra_sizeof_{name}" for name in allocated()})
        library = ctypes.CDLL(LIBRARY)
        for name in sizes:
            self.assertGreater(getattr(library, name)(), 0, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
