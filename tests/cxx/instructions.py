#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Instructions of the hot paths: instructions.py VALGRIND PROGRAM ...

Each PROGRAM is rows.c, compiled in the way that the rest of its name says (rows-C++). Prints a table of instructions an operation, counted by
Callgrind. C++ may not differ from C, which are two of the names, by more than two instructions, or
one in a hundred: of a long path the two make different use of the registers.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

MOST, SHARE = 2, 0.01


def counted(valgrind, program):
    """Instructions an operation, by row."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        run = subprocess.run([valgrind, "--tool=callgrind", "--collect-atstart=no", "--fair-sched=try",
                              f"--callgrind-out-file={out}", program],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{program} ended with {run.returncode}:\n{run.stdout}{run.stderr}")
        operations = {row: int(number)
                      for row, number in re.findall(r"^(.+) (\d+)$", run.stdout, re.M)}
        rows = {}
        for dump in pathlib.Path(folder).glob("out.*"):
            text = dump.read_text()
            row = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.M)
            if row:
                rows[row[1]] = int(re.search(r"^summary: (\d+)", text, re.M)[1]) / operations[row[1]]
        return {row: rows[row] for row in operations}


def main():
    valgrind, *programs = sys.argv[1:]
    table = {pathlib.Path(program).name.removeprefix("rows-"): counted(valgrind, program)
             for program in programs}
    print("| instructions |", *(f"{name} |" for name in table))
    print("| --- |", *("---: |" for _ in table))
    for row in table["C"]:
        print(f"| {row} |", *(f"{counts[row]:.1f} |" for counts in table.values()))
    failed = [row for row, ours in table["C"].items()
              if abs(ours - table["C++"][row]) > max(MOST, SHARE * ours)]
    for row in failed:
        print(f"{row}: C++ differs from C too much")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
