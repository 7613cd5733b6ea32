#!/usr/bin/python3
# SPDX-License-Identifier: BSL-1.0
"""Tuning constants: each is explained where it is defined, and docs/tuning.md has those that may be set.

check_constants.py SOURCE

A constant that must have a comment, beside it or above its group, is a macro of include/, outside of os/
and arch/, whose name ends with _NS, _LOOKS, _PATIENCE or _AHEAD. One that may be set is a number that a
header defines unless the program has.
"""
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
ROW = re.compile(r"^\| `(UM[A-Z_0-9]+)` \| ([0-9]+) \|", re.MULTILINE)
DEFINE = re.compile(r"^#define (UM[A-Z_0-9]+) +([0-9]+)u?\b(?![.\w])", re.MULTILINE)
SETTABLE = re.compile(r"^#ifndef (UMBRA_\w+)\n#define \1 ([0-9]+)$", re.MULTILINE)
EXPLAINED = re.compile(r"_NS$|_LOOKS$|_PATIENCE$|_AHEAD$")


def headers():
    return [path for path in sorted((SOURCE / "include").rglob("*.h"))
            if path.parent.name not in ("os", "arch")]


def has_comment(lines, at):
    """True if the line has a comment, or if one ends above the macros that stand around it."""
    if "/*" in lines[at]:
        return True
    while lines[at].startswith(("#define", "#ifndef UM", "#endif")):
        at -= 1
    return lines[at].rstrip().endswith("*/")


class Constants(unittest.TestCase):
    def test_each_constant_is_explained_where_it_is_defined(self):
        found = 0
        for header in headers():
            lines = header.read_text(encoding="utf-8").splitlines()
            for at, line in enumerate(lines):
                match = DEFINE.match(line)
                if match and EXPLAINED.search(match[1]):
                    found += 1
                    with self.subTest(f"{header.name}:{at + 1}"):
                        self.assertTrue(has_comment(lines, at), f"{match[1]} has no comment")
        self.assertGreater(found, 40)

    def test_those_that_may_be_set_are_in_the_page(self):
        page = (SOURCE / "docs" / "tuning.md").read_text(encoding="utf-8")
        settable = [pair for path in headers()
                    for pair in SETTABLE.findall(path.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(ROW.findall(page)), sorted(settable))


if __name__ == "__main__":
    unittest.main()
