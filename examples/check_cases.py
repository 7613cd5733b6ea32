#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs a program for each line of a table, and checks how the program ends and what it prints.

check_cases.py PROGRAM TABLE

A line of the table is a verb, what the verb wants, and the program's arguments, in words as a shell
splits them; # begins a comment. "Says" means standard output and standard error together.

  succeeds ARGUMENT...              status 0
  refuses ARGUMENT...               status 2, and says one line that names the last argument
  says STATUS LINE ARGUMENT...      that status, and says that line and no more; not counted is what
                                    a sanitizer says of an allocation that fails, as it should
  prints LINE ARGUMENT...           status 0, and prints that line among others
  deadlocks TEXT COUNT ARGUMENT...  status 3, and standard error has TEXT, a regular expression, for
                                    each number from 0 to COUNT - 1 in the place of its @
  writes FILE OPTION ARGUMENT...    status 0, and writes to the file that OPTION names, byte for
                                    byte, what is in FILE
  solves ANSWER ARGUMENT...         status 0, and --solution is a Matrix Market file with these
                                    numbers, but for 1e-14 of the largest
  keeps OPTION ARGUMENT...          status 1; the file that OPTION names, which the program was to
                                    write, is as it was, and no other is beside it
  overflows ARGUMENT...             with standard output full: status 1, and a line that says so
  confined BYTES LINE ARGUMENT...   in a control group that allows so many bytes: status 1, and says
                                    that line and no more (skipped where no group can be made)

Prints the results in TAP: one for each line of the table.
"""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

SECONDS = 300  # for one line of the table
SAID_MOST = 2000  # characters shown of what a program said that failed
ALLOCATION = re.compile(r"WARNING: .*Sanitizer failed to allocate")


class Skipped(Exception):
    """Why a line of the table cannot be checked here."""


class Wrong(Exception):
    """What is not as the table says."""


def want(true, what):
    if not true:
        raise Wrong(what)


class Program:
    """The program, and what its last run said."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.name = os.path.basename(path)
        self.said = ""

    def run(self, arguments, before=(), **streams):
        """Runs it, behind other words; returns its status. Without streams: both are what it says."""
        streams = streams or {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = [*before, self.path, *arguments]
        try:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False, **streams
            )
        except subprocess.TimeoutExpired as late:
            self.said = (late.stdout or b"").decode(errors="replace")
            raise Wrong(f"still running after {SECONDS} s") from late
        said = (ended.stdout or b"") + (ended.stderr or b"")
        self.said = said.replace(b"\0", b"").decode(errors="replace").rstrip("\n")
        return ended.returncode

    def ends(self, wanted, arguments, **how):
        status = self.run(arguments, **how)
        want(status == wanted, f"status {status}, not {wanted}")


def succeeds(program, *arguments):
    program.ends(0, arguments)


def refuses(program, *arguments):
    program.ends(2, arguments)
    want("\n" not in program.said, "more than one line")
    want(arguments[-1] in program.said, f"does not name {arguments[-1]}")


def says(program, status, line, *arguments):
    program.ends(int(status), arguments)
    said = [part for part in program.said.split("\n") if not ALLOCATION.search(part)]
    want("\n".join(said) == line, f"does not say: {line}")


def prints(program, line, *arguments):
    program.ends(0, arguments, stdout=subprocess.PIPE)
    want(line in program.said.split("\n"), f"does not print: {line}")


def deadlocks(program, text, count, *arguments):
    program.ends(3, arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for number in range(int(count)):
        pattern = text.replace("@", str(number))
        want(re.search(pattern, program.said), f"does not say: {pattern}")


def written(program, status, option, arguments, before=None):
    """What a file holds after the program was to write it; before: what it held."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "file")
        if before is not None:
            path.write_bytes(before)
        program.ends(status, [*arguments, option, str(path)])
        beside = sorted(os.listdir(folder))
        want(beside == ["file"], f"left there: {' '.join(beside)}")
        return path.read_bytes()


def writes(program, expected, option, *arguments):
    text = written(program, 0, option, arguments)
    want(text == pathlib.Path(expected).read_bytes(), f"{option} is not {expected}")


def solves(program, answer, *arguments):
    text = written(program, 0, "--solution", arguments).decode()
    header, sizes, *given = text.splitlines()
    wanted = [float(word) for word in answer.split()]
    want(header == "%%MatrixMarket matrix array real general", f"its header is {header}")
    want((sizes, len(given)) == (f"{len(wanted)} 1", len(wanted)), f"{len(given)} lines: {sizes}")
    most = 1e-14 * max(map(abs, wanted))
    near = all(abs(float(a) - b) <= most for a, b in zip(given, wanted))
    want(near, f"solution {' '.join(given)}")


def keeps(program, option, *arguments):
    before = b"before\n"
    want(written(program, 1, option, arguments, before) == before, "the file has changed")


def overflows(program, *arguments):
    if not os.path.exists("/dev/full"):
        raise Skipped("no /dev/full")
    with open("/dev/full", "wb") as full:
        program.ends(1, arguments, stdout=full, stderr=subprocess.PIPE)
    complaint = f"{program.name}: standard output: "
    want(any(line.startswith(complaint) for line in program.said.split("\n")), "does not say so")


def control_group(size):
    """The folder of a new control group that allows so many bytes."""
    groups = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    first = [line for line in groups if re.match(r"\d+:memory:", line)]
    second = [line for line in groups if line.startswith("0::")]
    name = f"umbra-{os.getpid()}"
    if first:
        group = f"/sys/fs/cgroup/memory{first[0].split(':', 2)[2]}/{name}"
        limit = "memory.limit_in_bytes"
    elif second:  # beside its own group: one with processes gives none below it a limit
        group = f"/sys/fs/cgroup{os.path.dirname(second[0].split(':', 2)[2])}/{name}"
        limit = "memory.max"
    else:
        raise Skipped("no control groups")
    try:
        os.mkdir(group)
    except OSError as error:
        raise Skipped(f"no control group: {error.strerror}") from error
    try:
        pathlib.Path(group, limit).write_text(size, encoding="ascii")
    except OSError as error:
        os.rmdir(group)
        raise Skipped(f"no limit for a control group: {error.strerror}") from error
    return group


def confined(program, size, line, *arguments):
    group = control_group(size)
    enter = ["sh", "-c", 'echo $$ >"$0" || exit 77; exec "$@"', f"{group}/cgroup.procs"]
    try:
        status = program.run(arguments, before=enter)
    finally:
        os.rmdir(group)
    if status == 77:
        raise Skipped("the control group cannot be entered")
    want(status == 1, f"status {status}, not 1")
    want(program.said == line, f"does not say: {line}")


VERBS = (succeeds, refuses, says, prints, deadlocks, writes, solves, keeps, overflows, confined)
FUNCTIONS = {verb.__name__: verb for verb in VERBS}


def check(program, number, words):
    """Checks one line of the table and prints the result. True if it is as the table says."""
    verb, *rest = words
    name = " ".join(words).replace("#", " ")
    said = ""
    try:
        FUNCTIONS[verb](program, *rest)
    except Skipped as skipped:
        said = f" # SKIP {skipped}"
    except Wrong as wrong:
        for line in [str(wrong), *program.said[:SAID_MOST].splitlines()]:
            print(f"# {line}")
        print(f"not ok {number} - {name}", flush=True)
        return False
    print(f"ok {number} - {name}{said}", flush=True)
    return True


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and a control group is removed
    program = Program(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as table:
        lines = [words for line in table if (words := shlex.split(line, comments=True))]
    for words in lines:
        if words[0] not in FUNCTIONS:
            sys.exit(f"{sys.argv[2]}: unknown verb '{words[0]}'")
    print(f"1..{len(lines)}", flush=True)
    results = [check(program, number, words) for number, words in enumerate(lines, 1)]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
