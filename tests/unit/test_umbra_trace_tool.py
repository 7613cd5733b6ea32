#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""tools/umbra-trace: the events that it makes of records, of programs that run or were killed, and of
files that are cut short or damaged, and what it says to bad input.

Usage: test_umbra_trace_tool.py UMBRA-TRACE PROGRAM, where PROGRAM is umbra_top_program.c. Exit status 77:
this system has no files for traces.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOL, PROGRAM = map(os.path.abspath, sys.argv[1:3])
UNIT, CORE_BYTES, RING_AT = 65536, 5 * 65536, 295424


def trace(*arguments):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, timeout=60, check=False)


def start(path, **environment):
    program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "UMBRA_TRACE": path, **environment})
    assert program.stdout.readline() == b"ready\n"
    return program


class Made:
    """A file as the library writes it."""

    def __init__(self, cores, places=16):
        self.places = places
        self.bytes = bytearray(UNIT + cores * CORE_BYTES)
        struct.pack_into("<7Q", self.bytes, 0, 0x3165636172746D75, len(self.bytes), CORE_BYTES, cores, 99, 1000, 0)
        for core in range(cores):
            at = self.at(core)
            struct.pack_into("<6Q", self.bytes, at, 0x32706F7461626D75, 3, core, 7, cores, 2000000000)
            struct.pack_into("<Q", self.bytes, at + 488, 2000)
            struct.pack_into("<2Q", self.bytes, at + RING_AT, 0, 4 * (places - 1))

    @staticmethod
    def at(core):
        return UNIT + core * CORE_BYTES

    def record(self, core, *words):
        at = self.at(core) + RING_AT
        (head,) = struct.unpack_from("<Q", self.bytes, at)
        struct.pack_into("<4Q", self.bytes, at + 64 + head % self.places * 32, *words)
        struct.pack_into("<Q", self.bytes, at, head + 1)

    def fiber(self, core, place, word, name, fn):
        struct.pack_into("<Q24sQ", self.bytes, self.at(core) + 512 + place * 64, word, name.encode(), fn)

    def text(self, core, place, address, text):
        struct.pack_into("<Q120s", self.bytes, self.at(core) + 262656 + place * 128, address, text.encode())

    def count(self, core, kind, value):
        struct.pack_into("<Q", self.bytes, self.at(core) + 64 + kind * 8, value)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "trace")

    def tearDown(self):
        self.folder.cleanup()

    def events(self, said=b""):
        result = trace(self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        if said is not None:
            self.assertEqual(result.stderr, said)
        return json.loads(result.stdout)

    def of(self, raw):
        with open(self.path, "wb") as file:
            file.write(raw)


class Records(Case):
    HEAD = [
        '{"ph":"M","pid":3,"tid":1,"ts":0.000,"name":"process_name","args":{"name":"runtime 3 of process 99"}}',
        '{"ph":"M","pid":3,"tid":1,"ts":0.000,"name":"thread_name","args":{"name":"core 0 on cpu 7"}}',
        '{"ph":"M","pid":3,"tid":2,"ts":0.000,"name":"thread_name","args":{"name":"core 0, marks"}}',
    ]
    A, B = 2 << 43 | 0x1000, 4 << 43 | 0x2000  # fibers at 0x20000 and 0x40000

    def lines(self, made):
        self.of(made.bytes)
        result = trace(self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        json.loads(result.stdout)
        text = result.stdout.decode()
        self.assertTrue(text.startswith("[\n") and text.endswith("\n]\n"))
        return text[2:-3].split(",\n")

    def check(self, records, wanted):
        made = Made(1)
        made.fiber(0, 5, self.A, 'a "b" \u00e9', 0x5000)
        made.fiber(0, 9, self.B | 1, "", 0x6000)  # has ended
        made.text(0, 0, 0x7000, "event")
        made.text(0, 255, 0x7777, "a mark\\")
        for record in records:
            made.record(0, *record)
        lines = self.lines(made)
        self.assertEqual(lines[:3], self.HEAD)
        self.assertEqual(lines[3:-1], wanted)

    def test_slices_say_what_ran_how_long_and_what_ended_it(self):
        at = '{"ph":"X","pid":3,"tid":1,'
        self.check([
            (3001, 0, 0, self.A), (5003, 1, self.A, self.B), (5005, 2, self.B, self.A),
            (9001, 3 | 0x7000 << 8, self.A, self.B), (2005001, 3, self.B, 0), (2005003, 4, 0x40, 0),
            (2005005, 5, 0, 0), (2005007, 6, 3, 0),
        ], [
            at + '"ts":0.500,"dur":0.500,"cat":"core","name":"scheduler","args":{"until":"run"}}',
            at + '"ts":1.000,"dur":1.001,"cat":"fiber","name":"a \\"b\\" \u00e9",'
                 '"args":{"until":"yield","fiber":"0x20000"}}',
            at + '"ts":2.001,"dur":0.001,"cat":"fiber","name":"0x6000",'
                 '"args":{"until":"transfer","fiber":"0x40000"}}',
            at + '"ts":2.002,"dur":1.998,"cat":"fiber","name":"a \\"b\\" \u00e9",'
                 '"args":{"until":"block","fiber":"0x20000","for":"event"}}',
            at + '"ts":4.000,"dur":998.000,"cat":"fiber","name":"0x6000",'
                 '"args":{"until":"block","fiber":"0x40000"}}',
            at + '"ts":1002.000,"dur":0.001,"cat":"fiber","name":"fiber 0x800",'
                 '"args":{"until":"end","fiber":"0x800"}}',
            at + '"ts":1002.001,"dur":0.001,"cat":"core","name":"scheduler","args":{"until":"idle"}}',
            at + '"ts":1002.002,"dur":0.001,"cat":"core","name":"idle","args":{"until":"busy","ended":"parked"}}',
        ])

    def test_marks_and_arrows(self):
        mark, arrow = '{"ph":"i","pid":3,"tid":2,"ts":0.500,"s":"t",', '"pid":3,"tid":1,"ts":0.500,'
        number = hex(self.A ^ 3 * 0x9E3779B97F4A7C15 & 2**64 - 1)
        self.check([
            (2000, 7, self.A, 0x5000), (2000, 8 | 1 << 11, self.A, 0x5000), (2000, 9, 0x80, 0),
            (2000, 10, self.A, 2), (2000, 12 | (1 | 1 << 3 | 0x81 << 4) << 8, self.A, 2),
            (2000, 11, self.A, 2), (2000, 12, self.A, 0), (2000, 13, 0x6000, 0x90), (2000, 20, 0x7777, 4711),
        ], [
            mark + '"cat":"spawn","name":"spawn","args":{"fiber":"0x20000","fn":"0x5000"}}',
            '{"ph":"s",' + arrow + f'"cat":"spawn","name":"spawn","id":"{hex(self.A)}"}}',
            mark + '"cat":"begin","name":"begin","args":{"fiber":"0x20000","fn":"0x5000"}}',
            '{"ph":"f",' + arrow + f'"bp":"e","cat":"spawn","name":"spawn","id":"{hex(self.A)}"}}',
            mark + '"cat":"signal","name":"signal","args":{"event":"0x80"}}',
            mark + '"cat":"wake","name":"wake","args":{"fiber":"0x20000"}}',
            '{"ph":"s",' + arrow + f'"cat":"wake","name":"wake","id":"{number}"}}',
            mark + '"cat":"return","name":"return","args":{"fiber":"0x20000","ended":"timed out","of_fiber":"0x80"}}',
            '{"ph":"f",' + arrow + f'"bp":"e","cat":"wake","name":"wake","id":"{number}"}}',
            mark + '"cat":"continue","name":"continue","args":{"fiber":"0x20000"}}',
            '{"ph":"s",' + arrow + f'"cat":"wake","name":"wake","id":"{number}"}}',
            mark + '"cat":"return","name":"return","args":{"fiber":"0x20000","ended":"woken"}}',
            mark + '"cat":"task","name":"task","args":{"fn":"0x6000","task":"0x90"}}',
            mark + '"cat":"mark","name":"a mark\\\\","args":{"value":4711}}',
        ])

    def test_spans(self):
        at = '"pid":3,"tid":1,"ts":0.500,"id":"0x90",'
        step, fork, call = ('"cat":"%s","name":"%s","args":' % (name, name) for name in ("step", "fork", "call"))
        self.check([
            (2000, 14, 0x90, 5), (2000, 15, 0x90, 0), (2000, 16, 0x90, 0x5000), (2000, 17, 0x90, 0),
            (2000, 18, 0x90, 0x5000), (2000, 19, 0x90, 2**64 - 1),
        ], [
            '{"ph":"b",' + at + step + '{"dispatch":"0x90","step":5}}',
            '{"ph":"e",' + at + step + '{"dispatch":"0x90"}}',
            '{"ph":"b",' + at + fork + '{"shadow":"0x90","fn":"0x5000"}}',
            '{"ph":"e",' + at + fork + '{"shadow":"0x90"}}',
            '{"ph":"b",' + at + call + '{"call":"0x90","fn":"0x5000"}}',
            '{"ph":"e",' + at + call + '{"call":"0x90","result":"0xffffffffffffffff"}}',
        ])

    def test_counters_are_the_last_mark_and_what_is_lost_the_first(self):
        made = Made(2)
        for i in range(20):
            made.record(0, 2000 + 2 * i, 9, i, 0)
        for kind in range(23):
            made.count(0, kind, 100 + kind)
        lines = self.lines(made)
        self.assertEqual(lines[3], '{"ph":"i","pid":3,"tid":2,"ts":0.505,"s":"t","cat":"lost",'
                                   '"name":"LOST: the ring was full","args":{"records":5}}')
        self.assertEqual([json.loads(line)["args"]["event"] for line in lines[4:19]], [hex(i) for i in range(5, 20)])
        self.assertTrue(lines[19].startswith('{"ph":"i","pid":3,"tid":2,"ts":0.519,"s":"t","cat":"counters",'
                                             '"name":"counters","args":{"run":100,"yield":101,'))
        self.assertTrue(lines[19].endswith('"mark":120,"enter":121,"leave":122,"lost":5}}'))
        self.assertEqual(json.loads(lines[20])["args"]["lost"], 0)

    def test_constructs_of_openmp_are_slices_of_one_process(self):
        made = Made(1)
        struct.pack_into("<Q", made.bytes, 56, 1)
        made.text(0, 0, 0x7000, "region")
        made.text(0, 8, 0x7040, "barrier")
        for time_, kind, text in ((2000, 22, 0x7040), (2002, 21, 0x7000), (2004, 21, 0x7040), (2006, 22, 0x7040),
                                  (2008, 22, 0x7000)):
            made.record(0, time_, kind, text, 0x5001)
        lines = self.lines(made)
        at = '"pid":99,"tid":3,"ts":0.50'
        self.assertEqual(lines[:2], [
            '{"ph":"M","pid":99,"tid":3,"ts":0.000,"name":"process_name","args":{"name":"OpenMP: ?"}}',
            '{"ph":"M","pid":99,"tid":3,"ts":0.000,"name":"thread_name","args":{"name":"thread 3"}}',
        ])
        self.assertEqual(lines[2:-1], [
            '{"ph":"B",' + at + '1,"cat":"openmp","name":"region 0x5001","args":{"at":"0x5001"}}',
            '{"ph":"B",' + at + '2,"cat":"openmp","name":"barrier","args":{"at":"0x5001"}}',
            '{"ph":"E",' + at + '3}',
            '{"ph":"E",' + at + '4}',
        ])

    def test_a_file_without_records_has_counters_only(self):
        self.of(Made(1).bytes)
        self.assertEqual([event["name"] for event in self.events()], ["counters"])

    def test_functions_have_names_while_their_file_is_the_same(self):
        made = Made(1)
        with open(PROGRAM, "rb") as file:
            elf = file.read()
        offsets, sizes = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<HH", elf, 54)
        loads = [struct.unpack_from("<IIQQ8xQ", elf, offsets + i * sizes[0]) for i in range(sizes[1])]
        offset, code = next((load[2], load[3]) for load in loads if load[:2] == (1, 5))
        symbols = subprocess.run(["nm", PROGRAM], capture_output=True, text=True, check=True).stdout
        hog = next(int(line.split()[0], 16) for line in symbols.split("\n") if line.endswith(" holds"))
        low = 0x10000000 - code % 4096 + code
        line = f"{low - code % 4096:x}-{low + len(elf):x} r-xp {offset - offset % 4096:x} 00:00 "
        for address in (low + hog - code, low + hog - code + 1, 1):
            made.record(0, 2000, 13, address, 0)
        for inode, name in ((os.stat(PROGRAM).st_ino, "holds"), (1, "umbra_top_program+0x")):
            text = f"{line}{inode} {PROGRAM}\n".encode().ljust(500, b"\0")
            made.bytes[64:64 + len(text)] = text
            struct.pack_into("<Q", made.bytes, 48, int(time.time()))
            self.of(made.bytes)
            names = [event["args"]["fn"] for event in self.events() if event["name"] == "task"]
            self.assertTrue(names[0].startswith(name), names)
            self.assertTrue(names[1].startswith("umbra_top_program+0x"), names)
            self.assertEqual(names[2], "0x1")


class Programs(Case):
    def check(self, events):
        names = [event["name"] for event in events]
        self.assertIn("core 1, marks", [event["args"].get("name") for event in events if event["ph"] == "M"])
        waits = [e for e in events if e["name"] == "the waiter" and e["args"].get("until") == "block"]
        self.assertEqual([wait["args"]["for"] for wait in waits], ["event"])
        self.assertGreater(names.count("the sleeper"), 0)
        self.assertEqual(names.count("counters"), 2)
        return sum(event["args"]["begin"] for event in events if event["name"] == "counters")

    def until_all_have_begun(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                if self.check(self.events(said=None)) == 3:
                    return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def test_a_program_that_runs_is_converted_and_one_that_was_killed(self):
        program = start(self.path)
        self.until_all_have_begun()
        program.kill()
        program.communicate()
        self.assertEqual(self.check(self.events(said=None)), 3)

    def test_while_records_are_overwritten(self):
        program = start(self.path, UMBRA_TRACE_RECORDS="16")
        for _ in range(20):
            events = self.events(said=None)
            self.assertTrue({event["cat"] for event in events if event["ph"] == "X"} <= {"core", "fiber"})
            slices = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
            self.assertLess(len(slices), 16)
            for one, other in zip(slices, slices[1:]):
                self.assertAlmostEqual(one["ts"] + one["dur"], other["ts"], places=2)
        program.communicate()


class Bad(Case):
    def whole(self):
        made = Made(2)
        for core in range(2):
            made.fiber(core, 0, 2, "one", 0x5000)
            for i in range(20):
                made.record(core, 2000 + i, i, 2, 0)
        return made.bytes

    def refused(self, name, *arguments):
        result = trace(*arguments)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, b"")
        self.assertIn(name.encode(), result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_bad_arguments_and_files_are_named(self):
        self.refused("FILE")
        self.refused("more", self.path, "more")
        self.refused("/no/such/file", "/no/such/file")
        self.refused(self.folder.name, self.folder.name)
        self.refused(TOOL, TOOL)
        for raw, why in ((b"", "no runtime"), (bytes(UNIT), "no runtime"), (b"[\n", "no file of UMBRA_TRACE")):
            self.of(raw)
            self.refused(self.path, self.path)
            self.refused(why, self.path)
        self.assertIn(b"UMBRA_TRACE", trace("--help").stdout)

    def convert(self, raw):
        """What is whole is converted, and a line says what is not; or a line says what is wrong."""
        self.of(raw)
        result = trace(self.path)
        said = result.stderr.decode().splitlines()
        self.assertTrue(all(line.startswith("umbra-trace: ") for line in said), said)
        if result.returncode == 0:
            return json.loads(result.stdout), said
        self.assertEqual((result.returncode, result.stdout, len(said)), (2, b"", 1))
        return None, said

    def test_a_file_that_is_cut_short(self):
        whole = self.whole()
        ring = Made.at(1) + RING_AT + 64
        for length in (1, 63, 64, UNIT - 1, UNIT, UNIT + 8, Made.at(1), ring - 1, ring, ring + 33, len(whole) - 1):
            events, said = self.convert(whole[:length])
            if length < 8:
                self.assertIsNone(events)
                continue
            self.assertTrue(any("cut short" in line for line in said), (length, said))
            if length >= Made.at(1):
                self.assertEqual(len([e for e in events if e["ph"] == "X" and e["pid"] == 3 and e["tid"] == 1]), 2)
            if length == ring + 33:  # one place of the ring is there: that of record 16
                self.assertEqual([e["name"] for e in events if e["tid"] in (3, 4) and e["ph"] == "b"], ["fork"])

    def test_a_file_that_is_damaged(self):
        whole = self.whole()
        text = b"1000-2000 r-xp 0 00:00 1 /bin/sh\n"
        whole[64:64 + len(text)] = text
        parts = (range(0, 64), range(64, 64 + len(text)), range(UNIT, UNIT + 48),
                 range(UNIT + RING_AT, UNIT + RING_AT + 16), range(UNIT + RING_AT + 64, UNIT + RING_AT + 200))
        chance = random.Random(1)
        for at in (at for part in parts for at in chance.sample(part, 6)):
            raw = bytearray(whole)
            raw[at] ^= 1 << chance.randrange(8)
            self.convert(raw)

    def test_a_reader_that_ends_early(self):
        self.of(self.whole())
        tool = subprocess.Popen([sys.executable, TOOL, self.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        tool.stdout.close()
        self.assertEqual(tool.stderr.read(), b"")
        tool.stderr.close()
        tool.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        without = subprocess.run([PROGRAM], env={**os.environ, "UMBRA_TRACE": folder + "/trace"},
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if "UMBRA_TRACE" in without.stderr:
        print("skipped:", without.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
