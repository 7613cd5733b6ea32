#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What is seen of OpenMP programs: traces, the table of constructs, deadlocks, and tools/umbra-omp's options.

Usage: test_see.py TOOLS LIBRARY SANITIZER SEEN STUCK, with the programs of seen.c and stuck.c.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SANITIZER = sys.argv[3]
TOOLS, LIBRARY, SEEN, STUCK = (os.path.abspath(sys.argv[i]) for i in (1, 2, 4, 5))
LAST_S = 60
# construct times inside own waited at place
ROW = re.compile(r"umbra: (\S[a-z ]*?) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) at (.+)")


def preloaded(**variables):
    return {**os.environ, "LD_PRELOAD": LIBRARY, "UMBRA_OMP_LIBRARY": LIBRARY, **variables}


def run(*command, **variables):
    return subprocess.run(command, capture_output=True, text=True, timeout=LAST_S, check=False,
                          env=preloaded(**variables))


def tool(name, *arguments, **how):
    return subprocess.run([os.path.join(TOOLS, name), *arguments], capture_output=True, text=True, timeout=LAST_S,
                          check=False, **how)


class Trace(unittest.TestCase):
    def events(self, *arguments, program=SEEN, prints="1040\n", **variables):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            result = run(program, *arguments, UMBRA_TRACE=path, **variables)
            self.assertEqual((result.returncode, result.stdout), (0, prints), result.stderr)
            converted = tool("umbra-trace", path)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        return json.loads(converted.stdout), converted.stderr

    def slices(self, events):
        """How often each name begins; each beginning has its end on its track, and they nest."""
        stacks, counts = collections.defaultdict(list), collections.Counter()
        for event in events:
            track, stack = (event["pid"], event["tid"]), stacks[event["pid"], event["tid"]]
            if event["ph"] == "B":
                stack.append(event)
                counts[self.what(event)] += 1
            elif event["ph"] == "E":
                self.assertTrue(stack, track)
                self.assertGreaterEqual(event["ts"], stack.pop()["ts"])
        self.assertEqual([stack for stack in stacks.values() if stack], [])
        return counts

    def what(self, event):
        """A construct, and the function of a region or task; in its name is the line instead."""
        name, at, line = re.fullmatch(r"([a-z ]+) (\w+):(\d+)", event["name"]).groups()
        self.assertTrue(event["args"]["source"].endswith(".c:" + line), event)
        self.assertTrue(at == "take" or event["args"]["at"].startswith(at), event)  # which is inlined
        return name + (" " + event["args"]["at"] if name in ("region", "task", "taken task") else "")

    def check(self, events):
        counts = self.slices(events)
        self.assertEqual(counts["region work._omp_fn.0"], 20)
        self.assertEqual(counts["region inner._omp_fn.0"], 2)
        self.assertEqual(sum(count for name, count in counts.items() if name.endswith("task work._omp_fn.1")), 40)
        self.assertEqual(counts["loop"], 20)
        self.assertEqual(counts["barrier"], 20 * 2 + 2 + 1)
        self.assertTrue({"task work._omp_fn.1", "taken task work._omp_fn.1"} & set(counts))

    def test_regions_loops_tasks_and_waits_are_slices(self):
        events, said = self.events()
        self.assertEqual(said, "")
        self.check(events)
        self.assertEqual(len({event["pid"] for event in events}), 1)
        names = {event["args"].get("name") for event in events if event["ph"] == "M"}
        self.assertLessEqual({"OpenMP: " + os.path.basename(SEEN), "thread 1", "thread 2"}, names)

    def test_slices_are_named_by_functions_and_lines(self):
        events, _ = self.events()
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen.c"), encoding="utf-8") as file:
            lines = [""] + file.read().split("\n")
        begins = {event["name"] for event in events if event["ph"] == "B"}
        for kind, text in (("region", "omp parallel"), ("loop", "omp for"), ("taskwait", "omp taskwait")):
            numbers = [int(name.rsplit(":", 1)[1]) for name in begins if name.startswith(kind + " work:")]
            self.assertTrue(numbers, begins)
            for number in numbers:  # or what the construct begins with
                self.assertIn(text, lines[number - 1] + lines[number])

    def test_a_wait_for_a_lock(self):
        events, _ = self.events("helped", program=STUCK, prints="released\n")
        self.assertEqual(self.slices(events)["lock"], 1)
        self.assertIn("helped._omp_fn.0+0x",
                      next(e["args"]["at"] for e in events if e.get("name", "").startswith("lock ")))

    def test_a_child_process_does_not_trace(self):
        if SANITIZER == "thread":
            self.skipTest("no threads in a child")
        for way in ("child", "early"):
            with self.subTest(way):
                self.check(self.events(way)[0])

    def test_a_ring_that_was_full(self):
        events, said = self.events(UMBRA_TRACE_RECORDS="16")
        self.assertRegex(said, r"umbra-trace: thread 1 recorded \d+ events and lost the oldest")
        self.assertGreater(sum(self.slices(events).values()), 0)

    def test_a_file_that_cannot_be_made(self):
        result = run(SEEN, UMBRA_TRACE="/no/such/folder/trace")
        self.assertEqual((result.returncode, result.stdout), (0, "1040\n"))
        self.assertIn("umbra_omp: UMBRA_TRACE=/no/such/folder/trace: ", result.stderr)


class Table(unittest.TestCase):
    def check(self, lines):
        rows = collections.Counter()
        for line in lines:
            found = ROW.fullmatch(line)
            if not found:
                continue
            inside, own, waited = map(float, found.group(3, 4, 5))
            self.assertGreaterEqual(inside + 0.002, own)
            self.assertGreaterEqual(inside + 0.002, waited)
            rows[found[1], found[6].split(" ")[0] if found[1] == "region" else ""] += int(found[2])
        return rows

    def test_the_table(self):
        result = run(SEEN, UMBRA_STATS="1")
        self.assertEqual((result.returncode, result.stdout), (0, "1040\n"))
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0].split(), "umbra: construct times inside-ms own-ms waited-ms".split())
        rows = self.check(lines)
        self.assertEqual(sum(count for (name, _), count in rows.items() if name == "region"), 23)
        self.assertEqual(rows["task", ""] + rows["taken task", ""], 40)
        self.assertEqual(rows["loop", ""], 20)
        self.assertEqual(rows["barrier", ""], 43)

    def test_umbra_omp_prints_it_with_functions(self):
        library = preloaded(LD_PRELOAD="")
        result = tool("umbra-omp", "--stats", SEEN, env=library)
        self.assertEqual((result.returncode, result.stdout), (0, "1040\n"), result.stderr)
        rows = self.check(result.stderr.splitlines())
        self.assertEqual(rows["region", "work._omp_fn.0"], 20, result.stderr)
        self.assertEqual(tool("umbra-omp", "--stats", "sh", "-c", "exit 3", env=library).returncode, 3)

    def test_umbra_omp_compares(self):
        if SANITIZER != "none":
            self.skipTest("libgomp does not run what is sanitized")
        result = tool("umbra-omp", "--compare", "2", SEEN, env=preloaded(LD_PRELOAD=""))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line.split()[0] for line in result.stdout.splitlines()], ["libgomp", "Umbra"] * 2)
        for times in ("", "0", "x"):
            refused = tool("umbra-omp", "--compare", times, SEEN, env=preloaded(LD_PRELOAD=""))
            self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1))
            self.assertIn(f"'{times}'", refused.stderr)
        both = tool("umbra-omp", "--stats", "--compare", "2", SEEN, env=preloaded(LD_PRELOAD=""))
        self.assertEqual((both.returncode, both.stderr[:17]), (2, "usage: umbra-omp "))

    def test_a_number_that_is_none(self):
        for variable in ("UMBRA_STATS", "UMBRA_WATCHDOG"):
            result = run(SEEN, **{variable: "x"})
            self.assertEqual((result.returncode, result.stdout), (0, "1040\n"))
            self.assertIn(f"umbra_omp: {variable}=x: not a number", result.stderr)


class Stuck(unittest.TestCase):
    def report(self, way, lines, **variables):
        """What a program that does not end says; so many lines."""
        with subprocess.Popen([STUCK, way], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              env=preloaded(**variables)) as program:
            said = [program.stderr.readline() for _ in range(lines)]
            running = program.poll() is None
            program.kill()
        self.assertTrue(running)
        return tool("umbra-report", input="".join(said)).stdout.splitlines()

    def places(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stuck.c"), encoding="utf-8") as file:
            return {number for number, line in enumerate(file, 1) if "/* place" in line}

    def deadlock(self, way, *ends):
        """All that wait are named, and where: what for, and in which function; by one of the ends."""
        said = self.report(way, 1 + len(ends[0]))
        self.assertTrue(said[0].startswith("umbra: deadlock: all threads wait"), said)
        found = [re.fullmatch(r"umbra:   thread \d+, member \d of 2, waits for ([a-z ]+?)( 0x\w+)? at (\w+)\S* "
                              r"\(.*stuck\.c:(\d+)\)", line) for line in said[1:]]
        self.assertTrue(all(found), said)
        self.assertIn(sorted((one[1], one[3]) for one in found), [sorted(waits) for waits in ends])
        self.assertTrue(all(int(one[4]) in self.places() for one in found if one[2]), said)

    @unittest.skipIf(SANITIZER == "thread", "it has a thread of its own, so that not all wait")
    def test_two_locks(self):
        self.deadlock("locks", [("lock", "take"), ("lock", "take")])

    @unittest.skipIf(SANITIZER == "thread", "the same")
    def test_regions_inside_regions(self):
        self.deadlock("nested", [("critical section", "one_in_other"), ("critical section", "other_in_one"),
                                 ("a barrier", "nested"), ("a barrier", "nested")])

    @unittest.skipIf(SANITIZER == "thread", "the same")
    def test_a_task_and_a_lock(self):
        self.deadlock("tasks", [("lock", "tasks"), ("tasks", "tasks")],  # another member has the task
                      [("lock", "tasks"), ("a barrier", "tasks")])

    def test_another_thread_may_end_the_wait(self):
        for way in ("helped", "target"):
            result = run(STUCK, way)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "released\n", ""), way)

    def test_short_waits_are_not_told(self):
        for policy in ("passive", "active"):
            result = run(STUCK, "helped", UMBRA_WATCHDOG="60000", OMP_WAIT_POLICY=policy)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "released\n", ""))

    def test_long_waits_are_told_if_the_user_wants(self):
        result = run(STUCK, "helped", UMBRA_WATCHDOG="200")
        self.assertEqual((result.returncode, result.stdout), (0, "released\n"), result.stderr)
        waits = [line for line in result.stderr.splitlines() if line.startswith("umbra: a long wait: thread")]
        self.assertEqual(len(waits), 2, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
