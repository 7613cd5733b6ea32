#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Damaged files of UMBRA_TRACE, as tools/umbra-trace reads them: it refuses a file by one line, or makes
JSON of what is left of it; it does neither take seconds nor end by an exception of Python.

trace.py --seconds N --keep PREFIX [--seed SEED]
"""
import argparse
import contextlib
import io
import json
import os
import random
import signal
import struct
import sys
import tempfile
import time

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/umbra-trace")
UNIT, CORE_BYTES, RING_AT, PLACES = 65536, 5 * 65536, 295424, 16
WORDS = [0, 1, 2, 7, 255, UNIT, CORE_BYTES, 2**31, 2**32, 2**48, 2**63, 2**64 - 1]
TIME_MOST_S = 20


def whole(chance):
    """A file as the library writes it, of one core or two."""
    cores = chance.randint(1, 2)
    raw = bytearray(UNIT + cores * CORE_BYTES)
    struct.pack_into("<7Q", raw, 0, 0x3165636172746D75, len(raw), CORE_BYTES, cores, 99, 1000, 0)
    for core in range(cores):
        at = UNIT + core * CORE_BYTES
        head = chance.randint(0, 3 * PLACES)
        struct.pack_into("<6Q", raw, at, 0x32706F7461626D75, 3, core, 7, cores, 2000000000)
        struct.pack_into("<Q", raw, at + 488, 2000)
        struct.pack_into("<2Q", raw, at + RING_AT, head, 4 * (PLACES - 1))
        for i in range(PLACES):
            struct.pack_into("<4Q", raw, at + RING_AT + 64 + i * 32, 3000 + i * 100,
                             chance.randint(0, 40) | chance.randint(0, 2) << 8, 2 << 43 | 0x1000, 7)
        struct.pack_into("<Q24sQ", raw, at + 512, 2 << 43 | 0x1000, b"a fiber", 0x5000)
    return raw


def damaged(chance):
    raw = whole(chance)
    for _ in range(chance.randint(0, 6)):
        core = UNIT + chance.randint(0, len(raw) // CORE_BYTES - 1) * CORE_BYTES
        begin, length = chance.choice([(0, 256), (core, 600), (core + RING_AT, 64 + PLACES * 32)])
        at = begin + chance.randrange(length // 8) * 8
        if chance.randrange(3):
            struct.pack_into("<Q", raw, at, chance.choice(WORDS))
        else:
            raw[at + chance.randrange(8)] = chance.randrange(256)
    return raw[:chance.randrange(len(raw))] if chance.randrange(8) == 0 else raw


def too_long(number, frame):
    raise TimeoutError(f"more than {TIME_MOST_S} s")


def converted(code, path):
    """What the tool does with a file: its status and its output."""
    out = io.TextIOWrapper(io.BytesIO(), write_through=True)
    status = 0
    sys.argv = ["umbra-trace", path]
    signal.alarm(TIME_MOST_S)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(code, {"__name__": "__main__", "__file__": TOOL})
        except SystemExit as end:
            status = end.code
    signal.alarm(0)
    return status, out.buffer.getvalue()


def check(code, path):
    status, out = converted(code, path)
    if status in (None, 0):
        json.loads(out)
    elif status not in (1, 2) or out:
        raise ValueError(f"ended with status {status} after {len(out)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--keep", required=True)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    with open(TOOL, encoding="utf-8") as tool:
        code = compile(tool.read(), TOOL, "exec")
    signal.signal(signal.SIGALRM, too_long)
    end, seed, said = time.monotonic() + options.seconds, options.seed, sys.stdout
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            raw = damaged(random.Random(seed))
            path = os.path.join(folder, "trace")
            with open(path, "wb") as file:
                file.write(raw)
            try:
                check(code, path)
            except Exception as error:
                kept = f"{options.keep}{seed}"
                with open(kept, "wb") as file:
                    file.write(raw)
                sys.exit(f"seed {seed}: {type(error).__name__}: {error}: {kept}")
            seed += 1
    print(f"#{seed - options.seed} files", file=said)


main()
