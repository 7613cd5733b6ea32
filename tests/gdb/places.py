#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""
places.py TOOL PROGRAM: tools/umbra-report on what a program prints of its deadlock. Exit status 77: not
possible here.
"""
import os
import re
import shutil
import subprocess
import sys

FUNCTIONS = {
    "holder": "holds",
    "taker": "takes_held",
    "late": "takes_left",
    "locked out": "takes_outside",
    "poor": "takes_semaphore",
    "writer": "writes",
}
UNTOUCHED = """a line of the program's
umbra:   fiber 0x7f0000000000, core 0, blocked, waits for event 0x1 at /nowhere/at all+0x10
umbra:   fiber 0x7f0000000000, core 0, blocked, waits for event 0x1 at main+0x1 (/nowhere+0x10)
umbra:   fiber 0x7f0000000000, core 0, stopped
"""


def rewritten(tool, text):
    done = subprocess.run([tool], input=text, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "", done.stderr
    return done.stdout


def source_line(path, number):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()[number - 1]


def main():
    tool, program = map(os.path.abspath, sys.argv[1:])
    if shutil.which("addr2line") is None:
        print("addr2line is not installed")
        sys.exit(77)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done
    text = rewritten(tool, done.stderr)
    print(text)
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, function in FUNCTIONS.items():
        found = re.search(r'fiber "%s" .* at %s \(.*locked\.c:(\d+)\)$' % (name, function), text, re.M)
        assert found, name
        line = source_line(os.path.join(folder, "locked.c"), int(found[1]))
        assert re.search(r"umbra_\w+\(", line), line
    assert rewritten(tool, UNTOUCHED) == UNTOUCHED


main()
