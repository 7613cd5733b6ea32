#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""tools/coverage: what it refuses, what it says of reasons, and what it counts.

Usage: test_coverage_tool.py TOOLS-COVERAGE
"""
import collections
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv.pop(1)

SHARED = """static inline int sign(int x)
{
    if (x < 0)
        return -1;
    if (x == 0)
        return 0;
    return x > 100 ? 2 : 1;
}

static inline int never(void)
{
    return 7;
}
"""
ONE = """#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "include/shared.h"
int two(void);
int main(void)
{
    if (fork() == 0)
        raise(sign(-5) < 0 ? SIGKILL : SIGTERM);
    wait(0);
    return two();
}
"""
TWO = """#include <unistd.h>
#include "include/shared.h"
int two(void)
{
    _exit(sign(1) - 1);
}
"""
REASONS = """# a note
least include 90 80.5
Why not,
in two lines.
    include/a.h f: if (x)
    include/a.h f: if (x)

Depends on the moment.
    include/a.h g: {
"""


def load():
    loader = importlib.machinery.SourceFileLoader("coverage_tool", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("coverage_tool", loader))
    loader.exec_module(module)
    return module


class Tool(unittest.TestCase):
    def test_wrong_arguments_are_refused_by_name_in_one_line(self):
        for words in (["--frobnicate"], ["--read", "more"], [""]):
            done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(f"'{words[-1]}'", done.stderr)

    def test_help_is_printed(self):
        done = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("tests/coverage/reasons", done.stdout)

    def test_each_gap_needs_a_reason_and_each_reason_its_gaps(self):
        tool = load()

        def wrong(lines, branches, **gaps):
            counts = {f"include/a.h {name}: {'if (x)' if name == 'f' else '{'}": count
                      for name, count in gaps.items()}
            return tool.verdict(REASONS, {"include": (lines, branches)}, collections.Counter(counts))

        self.assertEqual(wrong(90, 80.5, f=2), [])
        self.assertEqual(wrong(95, 81, f=2, g=1), [])
        self.assertEqual(wrong(90, 80.5, f=3), ["no reason:   include/a.h f: if (x)"])
        self.assertEqual(wrong(90, 80.5, f=1), ["no such gap: include/a.h f: if (x)"])
        self.assertEqual(wrong(90, 80.5, f=2, h=1), ["no reason:   include/a.h h: {"])
        self.assertEqual(len(wrong(89.9, 80.4, f=2)), 2)

    @unittest.skipUnless(shutil.which("clang") and shutil.which("llvm-cov"), "no clang, or no llvm-cov")
    def test_all_files_and_all_processes_count_however_they_end(self):
        tool = load()
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/include")
            for name, text in (("include/shared.h", SHARED), ("one.c", ONE), ("two.c", TWO)):
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            built = subprocess.run(["clang", *tool.COUNTED.split(), "one.c", "two.c", "-o", "program"],
                                   cwd=folder, capture_output=True, text=True, check=False)
            if "libclang_rt.profile" in built.stderr:
                self.skipTest("clang's libraries are not here")
            self.assertEqual(built.returncode, 0, built.stderr)
            subprocess.run([f"{folder}/program"], check=True,
                           env={**os.environ, "LLVM_PROFILE_FILE": f"{folder}/counts/%c%m.profraw"})
            tool.ROOT = tool.BUILT = os.path.realpath(folder)
            tool.files = lambda: ["program", "one.c"]
            found = tool.gather()
            self.assertEqual(list(found), ["include/shared.h"])
            gaps = [gap.removeprefix("include/shared.h ") for gap, _ in tool.named_gaps(found)]
        self.assertEqual(gaps, ["sign: if (x == 0)", "sign: return x > 100 ? 2 : 1;", "never: {"])


if __name__ == "__main__":
    unittest.main()
