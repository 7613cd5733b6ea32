#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""
drive_gdb.py live|core SCRIPT MEASURE PROGRAM: children under the real gdb. MEASURE starts PROGRAM, which
was compiled without optimization. live: a second child stands at a breakpoint. core: a child has a fault
in the C library, which ends the process. Exit status 77: not possible here.
"""
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

START = ["break umbra_sleep_ns", "run", "continue"]
COMMANDS = [
    "umbra children",
    "umbra symbols",
    "bt",
    "python [gdb.execute('up') for _ in range(30) if gdb.selected_frame().name() != '%s']",
    "print counter",
    "umbra bt all",
]


def skip(why):
    print(why)
    sys.exit(77)


def core_of(command, folder):
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        if file.read().startswith("|"):
            skip("core dumps go to a program of the system's")
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if most == 0:
        skip("core dumps are not allowed")
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    done = subprocess.run(command, cwd=folder, check=False)
    assert done.returncode < 0, "the process goes on"
    cores = glob.glob(os.path.join(folder, "core*"))
    if not cores:
        skip("no core dump was written")
    return cores[0]


def gdb(script, commands, arguments):
    call = ["gdb", "-q", "-nx", "-batch", "-ex", "set pagination off", "-ex", "source " + script]
    for command in commands:
        call += ["-ex", command]
    done = subprocess.run(call + arguments, capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout + done.stderr)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        skip("processes may not be traced here")
    return done.stdout


def check(text, function, counter):
    for pattern in (
        r"^0x[0-9a-f]+ +0 .* 0x[0-9a-f]+ +/.*child-",  # umbra children
        r"^#\d+ .* %s \(" % function,  # bt
        r"^#\d+ .* main \(argc=",
        r"^\$1 = %d$" % counter,
    ):
        assert re.search(pattern, text, re.MULTILINE), pattern


def main():
    kind, script, measure, program = sys.argv[1:]
    if shutil.which("gdb") is None:
        skip("gdb is not installed")
    command = [os.path.abspath(measure), os.path.abspath(program), "1", "2"]
    function, counter = ("stay", 43) if kind == "live" else ("fault", 42)
    commands = [each % function if "%s" in each else each for each in COMMANDS]
    if kind == "live":
        text = gdb(script, START + commands, ["--args"] + command + ["stay", "0"])
    else:
        with tempfile.TemporaryDirectory() as folder:
            core = core_of(command + ["in a library"], folder)
            text = gdb(script, commands, [command[0], core])
    check(text, function, counter)


main()
