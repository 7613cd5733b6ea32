#!/usr/bin/python3
# SPDX-License-Identifier: BSL-1.0
"""docs/tuning.md: each constant in its table is in include/ with this value, and none is missing.

check_constants.py SOURCE

A constant that must be in the table is a macro of include/, outside of os/ and arch/, whose name ends with
_NS, _LOOKS, _PATIENCE or _AHEAD, and the sizes of shadow_memcpy. Others may be there, too.
"""
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
ROW = re.compile(r"^\| `(UM[A-Z_0-9]+)` \| ([0-9]+) \|", re.MULTILINE)
DEFINE = re.compile(r"#define (UM[A-Z_0-9]+)\s+([0-9]+)u?\b(?![.\w])")
LISTED = re.compile(r"_NS$|_LOOKS$|_PATIENCE$|_AHEAD$|^UMBRA_MEMCPY_\w+_BYTES$")
EXEMPT = {"UM_CALIBRATE_MOST_NS"}  # a bound against overflow


def defined():
    """Of each macro with a number its value, and whether its header may have tuning constants."""
    found = {}
    for header in sorted((SOURCE / "include").rglob("*.h")):
        text = header.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, value in DEFINE.findall(text):
            found[name] = (int(value), header.parent.name not in ("os", "arch"))
    return found


class Constants(unittest.TestCase):
    def setUp(self):
        text = (SOURCE / "docs" / "tuning.md").read_text(encoding="utf-8")
        self.listed = {name: int(value) for name, value in ROW.findall(text)}
        self.defined = defined()

    def test_the_table_has_rows(self):
        self.assertGreater(len(self.listed), 40)

    def test_each_constant_has_the_value_of_the_source(self):
        for name, value in self.listed.items():
            self.assertIn(name, self.defined, "no header defines it")
            self.assertEqual(self.defined[name][0], value, name)

    def test_no_constant_is_missing(self):
        needed = {name for name, (_, tuning) in self.defined.items() if tuning and LISTED.search(name)}
        self.assertEqual(sorted(needed - set(self.listed) - EXEMPT), [])


if __name__ == "__main__":
    unittest.main()
