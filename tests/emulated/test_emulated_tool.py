#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""tools/emulated: what it gives back, and what it says when something is wrong.

Usage: test_emulated_tool.py TOOLS-EMULATED. Exit 77: machines cannot be emulated here.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = ""
SMALL = ["--sockets=1", "--cores=1", "--threads=2", "--memory=256", "--timeout=60"]


def run(*arguments, **environment):
    return subprocess.run([TOOL, *arguments], env={**os.environ, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=False)


class Tool(unittest.TestCase):
    def is_refused(self, naming, *arguments):
        """One line on standard error that names the value, nothing else, status 2."""
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(naming, done.stderr)

    def test_programs_run_one_after_the_other_and_the_first_failure_counts(self):
        with tempfile.NamedTemporaryFile() as file:
            done = run(*SMALL, f"--results={file.name}", "printf", r"one\001\n", "+",
                       "sh", "-c", "echo two >&2; exit 3", "+", "sh", "-c", "kill -9 $$", "+",
                       "printf", "it's $HOME; no newline")
            results = json.load(file)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "one\1\ntwo\nit's $HOME; no newline")
        self.assertEqual([result["status"] for result in results], [0, 3, 128 + 9, 0])
        self.assertEqual([result["output"] for result in results],
                         ["one\1\n", "two\n", "", "it's $HOME; no newline"])
        self.assertEqual(results[3]["program"][1], "it's $HOME; no newline")
        self.assertRegex(done.stderr, r"sh: exit status 3\n")

    def test_much_output_arrives_whole(self):
        done = run(*SMALL, "seq", "20000")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), [str(i) for i in range(1, 20001)])

    def test_memory_is_what_was_asked_for(self):
        done = run(*SMALL, "--cores=2", "--nodes=2", "cat",
                   *(f"/sys/devices/system/node/node{i}/meminfo" for i in (0, 1)))
        total = [int(kib) for kib in re.findall(r"MemTotal: +(\d+) kB", done.stdout)]
        self.assertEqual(len(total), 2, done.stderr)
        for kib in total:
            self.assertGreater(kib, 128 * 1024 * 0.5)  # the kernel keeps some for itself
            self.assertLessEqual(kib, 128 * 1024)

    def test_kernel_panic_is_an_error_with_the_last_lines(self):
        done = run(*SMALL, "sh", "-c", "echo before; echo c >/proc/sysrq-trigger; sleep 50")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertEqual(done.stdout, "before\n")
        self.assertRegex(done.stderr, r"the machine stopped while \S*sh ran")
        self.assertIn("Kernel panic", done.stderr)

    def test_programs_that_end_the_machine_are_an_error(self):
        done = run(*SMALL, "sh", "-c", "echo o >/proc/sysrq-trigger; sleep 50")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("the machine stopped while", done.stderr)

    def test_hang_is_ended_when_the_time_is_over(self):
        for seconds in (8, 16, 32, 64):
            start = time.monotonic()
            done = run(*SMALL, f"--timeout={seconds}", "sh", "-c", "echo before; sleep 100")
            self.assertLess(time.monotonic() - start, seconds + 12)
            if done.stdout:  # else it was over before the machine was there
                break
        self.assertEqual((done.returncode, done.stdout), (124, "before\n"))
        self.assertRegex(done.stderr, r"the time was over while \S*sh ran")

    def test_machine_that_hangs_while_it_boots_is_started_anew(self):
        with tempfile.TemporaryDirectory() as path:
            real = shutil.which("qemu-system-x86_64")
            emulator = f"{path}/{os.path.basename(real)}"
            with open(emulator, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nmkdir {path}/hung 2>/dev/null && exec sleep 1000\n"
                           f'exec {real} "$@"\n')
            os.chmod(emulator, 0o755)
            done = run(*SMALL, "echo", "up", PATH=f"{path}:{os.environ['PATH']}")
            self.assertTrue(os.path.isdir(f"{path}/hung"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "up\n", ""))

    def test_file_that_is_no_kernel_is_an_error(self):
        done = run(*SMALL, "--timeout=8", f"--kernel={__file__}", "true")
        self.assertIn(done.returncode, (124, 125), done.stderr)

    def test_processor_that_cannot_go_offline_is_an_error(self):
        done = run(*SMALL, "--offline=0", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("processor 0 cannot be taken offline", done.stderr)

    def test_without_an_emulator_or_a_library_of_commands_it_is_skipped(self):
        with tempfile.TemporaryDirectory() as path:
            for name in ("python3", "env", "true"):
                os.symlink(f"/usr/bin/{name}", f"{path}/{name}")
            done = run(*SMALL, "true", PATH=path)
            self.assertEqual((done.returncode, done.stdout), (77, ""))
            self.assertIn("qemu-system-x86_64", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_wrong_arguments_are_refused_by_name(self):
        self.is_refused("--frobnicate", "--frobnicate", "true")
        self.is_refused("--sockets", "--sockets")
        for name in ("sockets", "cores", "threads", "nodes", "memory", "timeout"):
            for value in ("0", "-1", "two", "1.5", "", "99999999"):
                self.is_refused(f"'{value}'", f"--{name}={value}", "true")
        self.is_refused("'8'", "--offline=8", "true")
        self.is_refused("'3-1'", "--offline=3-1", "true")
        self.is_refused("'1,,2'", "--cpuset=1,,2", "true")
        self.is_refused("'x'", "--cpuset=x", "true")
        self.is_refused("3", "--nodes=3", "true")
        self.is_refused("512", "--cores=128", "true")
        self.is_refused("/no/such", "--kernel=/no/such", "true")
        self.is_refused("/no/such", "/no/such")
        self.is_refused(os.path.basename(TOOL), TOOL)
        self.is_refused("no program")
        self.is_refused("no program", "true", "+")

    def test_help_is_printed(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--offline LIST", done.stdout)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    probe = run("--timeout=60", "true")
    if probe.returncode == 77:
        print(probe.stderr.strip())
        sys.exit(77)
    unittest.main()
