#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""
drive.py live|fault|core|holders SCRIPT PROGRAM: the commands of umbra-gdb.py under the real gdb, on a
process that stands at a breakpoint, on one that has a fault in an inlined function, or on the core dump
that the kernel wrote of it. Exit status 77: not possible here.
"""
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

COMMANDS = [
    "umbra cores",
    "umbra fibers",
    "umbra bt deep one",
    "umbra bt all",
    'umbra fiber "deep one"',
    "bt",
    "python [gdb.execute('up') for _ in range(20) if gdb.selected_frame().name() != 'innermost']",
    "print depth",
    "print twice",
    "umbra fiber",
]
MISTAKES = ["umbra fiber nosuch", "umbra bt", "umbra bt 12345", "umbra fiber main"]


def skip(why):
    print(why)
    sys.exit(77)


def gdb(script, arguments, commands):
    call = ["gdb", "-q", "-nx", "-batch", "-ex", "set pagination off", "-ex", "source " + script]
    for command in commands:
        call += ["-ex", command]
    done = subprocess.run(call + arguments, capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout + done.stderr)
    return done.stdout, done.stderr


def core_of(program, folder):
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        if file.read().startswith("|"):
            skip("core dumps go to a program of the system's")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        skip("core dumps are not allowed")
    subprocess.run([os.path.abspath(program), "die"], cwd=folder, check=False)
    cores = glob.glob(os.path.join(folder, "core*"))
    if not cores:
        skip("no core dump was written")
    return cores[0]


def expect(text, *patterns):
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        assert found, "no %r after character %d" % (pattern, at)
        at = found.end()


def check(text):
    expect(text, r"^runtime 0x[0-9a-f]+, holds: 0$")
    expect(text, r"^ +0 +\d+ +task .* 0x", r"^ +1 +\d+ +idle ")
    row = r"^ +\d+ +0x[0-9a-f]+ +%d +%s +%s"
    expect(text, row % (0, "executing", '"main"'))
    expect(text, row % (1, "blocked", '"deep one" +event <never> at innermost \(blocked.c:16\)'))
    expect(text, row % (0, "stopped", '"stopped one" +at stops \(blocked.c:37\)'))
    expect(text, row % (0, "blocked", '"joiner" +join .* at joins \(blocked.c:43\)'))
    expect(text, r'^fiber \d+ "main" executing$', r"^runs: see the thread of core 0$")
    frames = (r"innermost \(depth=42", r" middle \(depth=", r" outermost \(depth=", "goes_deep")
    for _ in range(3):  # umbra bt, umbra bt all, and bt of the selected one
        expect(text, *frames)
        text = text[re.search(r"outermost \(depth=", text).end() :]
    expect(text, r"^\$1 = 42$", r"^\$2 = 84$")


def check_holders(text):
    """What is known of what fibers wait for."""
    at = r" at %s \(locked.c:\d+\)$"
    for name, waits in (
        ("holder", r"any of some events 0x[0-9a-f]+ \(<one> <two>\)" + at % "holds"),
        ("taker", r'mutex <held> held by fiber "holder" 0x[0-9a-f]+' + at % "takes_held"),
        ("late", r"mutex <left> held by a fiber that has ended" + at % "takes_left"),
        ("locked out", r"mutex <outside> held by thread 0x[0-9a-f]+" + at % "takes_outside"),
        ("poor", r"semaphore <semaphore> with count 0" + at % "takes_semaphore"),
        ("writer", r"write lock <rwlock> held by readers: 1" + at % "writes"),
    ):
        expect(text, r'^ +\d+ +0x[0-9a-f]+ +0 +blocked +"%s" +%s' % (name, waits))


def holders(script, program):
    if shutil.which("gdb") is None:
        skip("gdb is not installed")
    text, errors = gdb(script, [program], ["break um_report_deadlock", "run", "umbra fibers"])
    if "ptrace" in errors and "not permitted" in errors:
        skip("processes may not be traced here")
    check_holders(text)


def main():
    kind, script, program = sys.argv[1:]
    if kind == "holders":
        holders(script, program)
        return
    if shutil.which("gdb") is None:
        skip("gdb is not installed")
    with tempfile.TemporaryDirectory() as folder:
        if kind == "core":
            arguments, start = [program, core_of(program, folder)], []
        else:
            arguments = [program]
            start = ["run die"] if kind == "fault" else ["break all_are_there", "run"]
        text, errors = gdb(script, arguments, start + COMMANDS)
        if "ptrace" in errors and "not permitted" in errors:
            skip("processes may not be traced here")
        check(text)
        for mistake in MISTAKES:
            _, errors = gdb(script, arguments, start + [mistake])
            said = [line for line in errors.splitlines() if line.startswith("umbra: ")]
            assert len(said) == 1 and "Traceback" not in errors, mistake
    _, errors = gdb(script, ["/bin/true"], ["umbra fibers"])
    assert "umbra: " in errors and "Traceback" not in errors


main()
