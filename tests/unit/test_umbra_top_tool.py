#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""tools/umbra-top --once: its table, and what it says to bad input.

Usage: test_umbra_top_tool.py UMBRA-TOP PROGRAM, where PROGRAM is umbra_top_program.c. Exit status 77:
this system shows nothing.
"""
import glob
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TOOL, PROGRAM = sys.argv[1:3]


def top(*arguments):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


def start(**environment):
    program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    assert program.stdout.readline() == "ready\n"
    return program


def end(program):
    program.communicate()
    return program.returncode


class Top(unittest.TestCase):
    def test_shows_cores_waits_and_hogs(self):
        self.shows_cores_waits_and_hogs()

    def test_shows_them_while_there_is_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            self.shows_cores_waits_and_hogs(UMBRA_TRACE=folder + "/trace")

    def shows_cores_waits_and_hogs(self, **environment):
        program = start(UMBRA_TOP="1", **environment)
        names = glob.glob(f"/dev/shm/umbra.{program.pid}.*")
        deadline = time.monotonic() + 30
        while True:  # until the hog has run for long enough
            shown = top("--once", str(program.pid))
            if "HOG" in shown.stdout or time.monotonic() > deadline:
                break
        self.assertEqual(end(program), 0)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(len(names), 1)
        self.assertRegex(shown.stdout, r"(?m)^ +1 +0 +\d+ (idle|fiber|scheduler) +\d+\.\d% ")
        self.assertRegex(shown.stdout, r"(?m)^ +1 +1 +\d+ fiber .* the hog for \d+\.\d ms HOG$")
        self.assertRegex(shown.stdout, r"(?m)^ +\d+\.\d ms  the waiter, core 0, waits for event$")
        self.assertRegex(shown.stdout, r"(?m)^holds of runtime 1: 1$")
        waiting = int(re.search(r"fibers that wait: (\d+)", shown.stdout)[1])
        self.assertIn(waiting, (1, 2))  # the sleeper runs now and then

    def test_only_the_user_may_look_and_nothing_stays(self):
        program = start(UMBRA_TOP="1")
        (name,) = glob.glob(f"/dev/shm/umbra.{program.pid}.*")
        self.assertEqual(stat.S_IMODE(os.stat(name).st_mode), 0o600)
        self.assertEqual(end(program), 0)
        self.assertFalse(os.path.exists(name))

    def refused(self, name, *arguments):
        shown = top(*arguments)
        self.assertEqual(shown.returncode, 2)
        self.assertIn(name, shown.stderr)
        self.assertEqual(shown.stderr.count("\n"), 1)

    def test_a_process_that_shows_nothing_is_named(self):
        program = start()
        self.refused(str(program.pid), "--once", str(program.pid))
        self.assertEqual(end(program), 0)

    def test_bad_arguments_are_named(self):
        self.refused("4194305", "--once", "4194305")
        self.refused("many", "--once", "many")
        self.refused("--interval 0", "--interval", "0", "1")


if __name__ == "__main__":
    without = subprocess.run([PROGRAM], env={**os.environ, "UMBRA_TOP": "1"}, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60, check=False)
    if "UMBRA_TOP" in without.stderr:
        print("skipped:", without.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
