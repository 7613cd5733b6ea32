#!/usr/bin/python3
# SPDX-License-Identifier: BSL-1.0
"""tools/report on what the kernels really print, at a tiny size.

check_report.py TOOLS/REPORT KERNEL...
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REPORT = sys.argv[1]
KERNELS = sys.argv[2:]
VOID = {"meta", "br", "img", "input", "link", "path", "use", "rect", "stop"}


def measured(kernel, out):
    """True if this machine can run the kernel, whose figures are then written to the file.
    check_interface.sh leaves those of the same command, which takes a minute for all kernels."""
    left = pathlib.Path(f"{kernel}-tiny.json")
    if left.exists() and left.stat().st_mtime > os.stat(kernel).st_mtime:
        out.write(left.read_text(encoding="utf-8"))
        out.flush()
        return True
    command = [kernel, "--quick", "--tiny", "--rounds", "3", "--json"]
    ran = subprocess.run(command, stdout=out, check=False)
    if ran.returncode != 77:
        ran.check_returncode()
    return ran.returncode == 0


def report(*arguments):
    return subprocess.run([REPORT, *map(str, arguments)], capture_output=True, text=True, check=False)


class Reader(html.parser.HTMLParser):
    """Every element is closed, every id is there once and every reference leads to one."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.references, self.external = [], [], set(), []
        self.titles, self.images = [], 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.images += tag == "svg"
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href", "src"):
                (self.references.add(value[1:]) if value[0] == "#" else self.external.append(value))
            self.references.update(re.findall(r"url\(#([^)]*)\)", value or ""))

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.json = cls.path / "umbra.json"
        with open(cls.json, "w", encoding="utf-8") as out:
            cls.kernels = [kernel for kernel in KERNELS if measured(kernel, out)]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, page, sections):
        reader = Reader(page)
        self.assertEqual(reader.open, ["p", "p"][: len(reader.open)])
        self.assertEqual(len(reader.ids), len(set(reader.ids)))
        self.assertEqual(reader.references - set(reader.ids), set())
        self.assertEqual(reader.external, [], "it needs nothing else")
        charts = "".join(re.findall(r"<svg.*?</svg>", page, re.S))
        unnamed = re.findall(r"#0[0-9a-b]0[0-9a-b]0[0-9a-b]\b", charts)
        self.assertEqual(unnamed, [], "colours without a name")
        self.assertGreaterEqual(len(reader.titles), sections)
        self.assertGreaterEqual(reader.images, sections - 1)

    def test_a_report_has_a_section_for_each_kernel(self):
        out = self.path / "index.html"
        ran = report(self.json, "--out", out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.check(out.read_text(encoding="utf-8"), len(self.kernels) - 1)  # two share one

    def test_two_files_are_compared(self):
        out = self.path / "comparison.html"
        ran = report(self.json, self.json, "--out", out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.check(out.read_text(encoding="utf-8"), len(self.kernels))

    def drawn(self, lines):
        """The page of these lines."""
        measured, out = self.path / "changed.json", self.path / "changed.html"
        measured.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        ran = report(measured, "--out", out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        page = out.read_text(encoding="utf-8")
        self.check(page, 1)
        return page

    def lines_of(self, kernel):
        """The machine and the rows of one kernel."""
        machine, found = None, []
        for line in map(json.loads, self.json.read_text(encoding="utf-8").splitlines()):
            if line["bench"] == "machine":
                machine = line
            elif line["bench"] == kernel:
                found.append(line)
        return machine, found

    def test_a_large_machine_has_a_cell_for_every_pair_that_was_measured(self):
        machine, rows = self.lines_of("pair-matrix")
        if not rows:
            self.skipTest("one processor")
        kinds = {row["contender"]: row for row in rows}
        cpus = 64
        machine["cpus"] = [{"cpu": i, "core": i // 2, "siblings": [i ^ 1]} for i in range(cpus)]
        pairs = [(a, b) for a in range(cpus) for b in range(cpus) if a != b and a % 3]
        lines = [machine]
        for a, b in pairs:
            shared = "core" if a // 2 == b // 2 else "machine"
            params = {"from": a, "to": b, "shared": shared, "pairs": cpus * (cpus - 1)}
            lines += [{**row, "params": params, "median": 50.0 + abs(a - b)} for row in kinds.values()]
        page = self.drawn(lines)
        self.assertIn(f"{len(pairs):,} of 4,032 pairs", page)
        self.assertNotIn("cannot be seen", page)
        first = re.search(r"<svg.*?</svg>", page, re.S).group()
        neighbours = [pair for pair in pairs if abs(pair[0] - pair[1]) == 1]  # 51 ns
        self.assertEqual(len(re.findall(r">19\.6</text>", first)), len(neighbours))

    def test_heat_is_drawn_against_the_size_and_the_memory_of_a_task(self):
        machine, rows = self.lines_of("heat")
        if not rows:
            self.skipTest("one processor, or no examples")
        page = self.drawn([machine, *rows])
        for said in ("nodes a task, cubes", "workers × buffer", "umbra-dispatch, 1", "Heat, against the processors"):
            self.assertIn(said, page)
        without = [row for row in rows if "buffer" not in row["contender"]]
        self.assertNotIn("workers × buffer", self.drawn([machine, *without]))

    def test_messages_through_ports_have_a_chart_for_one_core_and_one_for_two(self):
        machine, rows = self.lines_of("channel")
        if not rows:
            self.skipTest("one processor")
        page = self.drawn([machine, *rows])
        for said in ("Both sides on one core", "Each side on a core of its own", "cores 2, items 32"):
            self.assertIn(said, page)
        one = [row for row in rows if row["params"].get("cores") == 1]
        self.assertNotIn("on a core of its own", self.drawn([machine, *one]))

    def test_a_server_has_a_chart_for_each_number_of_connections(self):
        machine, rows = self.lines_of("http")
        if not rows:
            self.skipTest("one processor, no examples, or no wrk")
        page = self.drawn([machine, *rows])
        for said in ("64 connections", "p99.9", "umbra-http"):
            self.assertIn(said, page)

    def test_a_store_has_a_chart_for_each_load(self):
        machine, rows = self.lines_of("kv")
        if not rows:
            self.skipTest("one processor, or no examples")
        page = self.drawn([machine, *rows])
        for said in ("A load of 70 %", "long ones, median", "umbra-held"):
            self.assertIn(said, page)

    def test_rows_with_fewer_rounds_say_so(self):
        machine, rows = self.lines_of("gauss-threads")
        if not rows:
            self.skipTest("one processor, or no examples")
        page = self.drawn([machine, *rows])
        self.assertNotIn("fewer rounds", page)
        self.assertNotIn("more take too long", page)
        threads = [row for row in rows if row["contender"].startswith("pthread-mu2")]
        threads[0]["rounds"] = 1
        most = max(row["params"]["threads"] for row in threads if row["params"]["group"] == 1)
        kept = [row for row in rows if row not in threads or row["params"]["threads"] < most]
        page = self.drawn([machine, *kept])
        for said in ("fewer rounds", "<th>rounds</th>", "pthread-mu2 stops at"):
            self.assertIn(said, page)

    def test_energy_is_drawn_where_there_is_any(self):
        machine, rows = self.lines_of("threshold")
        if not rows:
            self.skipTest("one processor")
        page = self.drawn([machine, *rows])
        if not any(isinstance(row["params"].get("energy"), dict) for row in rows):
            self.assertIn("not available here", page)
        for row in rows:
            if "energy" in row["params"]:
                row["params"]["energy"] = {"every_s": 2.0, "watts": [20.5, 21.0, 19.5]}
        page = self.drawn([machine, *rows])
        self.assertIn("Power, W", page)
        self.assertIn("Temperature while all processors wait: not available here", page)

    def test_curves_against_the_number_of_processors_are_drawn(self):
        machine, rows = self.lines_of("team")
        if not rows:
            self.skipTest("one processor")
        cpus = [{"cpu": cpu, "core": cpu, "siblings": []} for cpu in range(4)]
        lines = [{**machine, "cpus": cpus}, *rows]
        lines += [{**row, "params": {"cores": 4}, "median": 2 * row["median"]} for row in rows]
        fork = {**rows[0], "bench": "null-fork", "contender": "shadow-spin", "params": {}}
        for other in cpus[1:]:
            lines += [{**machine, "cpus": [cpus[0], other]}, fork]
        call = {**rows[0], "bench": "fib", "contender": "umbra-task"}
        for count in (2, 4):
            lines += [{**machine, "cpus": cpus[:count]}, {**call, "params": {"cores": count}}]
        curves, out = self.path / "curves.json", self.path / "curves.html"
        curves.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        ran = report(self.json, "--curves", curves, "--out", out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        page = out.read_text(encoding="utf-8")
        self.check(page, len(self.kernels))
        for said in ("4 processors", "from processor 0 to each other", "A barrier of so many", "a call of fib"):
            self.assertIn(said, page)

    def test_documents_get_their_tables_from_a_measurement(self):
        root, source = self.path / "clone", pathlib.Path(REPORT).parent.parent
        shutil.copytree(source / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(source / "docs", root / "docs")
        shutil.copy(source / "README.md", root)

        def run(*arguments):
            command = [root / "tools/report", *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        ran = run("--docs", self.json)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("New tables: README.md", ran.stdout)
        figures = (root / "docs/measurements.json").read_text(encoding="utf-8")
        self.assertLess(len(figures), len(self.json.read_text(encoding="utf-8")))
        self.assertEqual(run("--check").returncode, 0)
        self.assertEqual(run("--docs").stdout, "", "what is new stays as it is")
        ran = run("--docs", "--curves", self.json)
        self.assertEqual((ran.returncode, ran.stdout), (0, "New tables: docs/measurements.md\n"))
        self.assertEqual(run("--check").returncode, 0)
        ran = run("--docs", "--papers", self.json)
        self.assertEqual((ran.returncode, ran.stdout), (0, "New tables: docs/papers.md\n"))
        self.assertEqual(run("--check").returncode, 0)
        readme = root / "README.md"
        text = readme.read_text(encoding="utf-8")
        readme.write_text(text.replace("| what |", "| which |"), encoding="utf-8")
        ran = run("--check")
        said = "README.md: its tables are not those of the figures in docs/\n"
        self.assertEqual((ran.returncode, ran.stdout), (1, said))
        readme.write_text(text.replace("figures: headlines", "figures: nothing"), encoding="utf-8")
        ran = run("--docs")
        said = "tools/report: README.md: no table is named 'nothing'\n"
        self.assertEqual((ran.returncode, ran.stderr), (2, said))
        for wrong in (("--docs", "a", "b"), ("--check", "a"), ("--docs", self.path / "missing.json")):
            self.assertEqual(run(*wrong).returncode, 2)

        papers = root / "docs/papers.json"
        text = papers.read_text(encoding="utf-8")
        ran = run("--docs", self.json, "--papers", papers)
        said = f"tools/report: {papers}: these are figures of documents, not a measurement\n"
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (2, "", said))
        self.assertEqual(papers.read_text(encoding="utf-8"), text)

    def test_pivots_are_counted_for_more_processors(self):
        """Blocks of 1 ns, rows of 4 ns; then OpenMP's tasks cost 120 ns, too."""
        sys.path.insert(0, str(pathlib.Path(REPORT).parent))
        from reporting import data, pivots, tables

        self.assertEqual([pivots.rows_in_turn(2, 2), pivots.rows_in_turn(2, 1)], [4, 4])
        self.assertEqual([pivots.rows_in_turn(4, cores) for cores in (1, 2, 4)], [16, 12, 8])
        self.assertEqual([pivots.blocks_in_turn(4, cores) for cores in (1, 2, 4, 64)], [64, 36, 24, 12])
        self.assertEqual(pivots.ranges([2, 3, 4, 6]), "2 to 4, 6")
        row = {"bench": "apsp", "unit": "ns", "rounds": 1, "limit": "kernel-roofline",
               "params": {"n": 8, "block": 2}}
        file = self.path / "apsp.json"
        for openmp_ns, said in ((36, " 0.75 | 0.75 | 0.50 | 0.38 | none up to 64 | none up to 64 |"),
                                (96, " 2.00 | 1.69 | 0.97 | 0.61 | 2 to 7 | 2 to 64 |")):
            lines = [{"bench": "machine", "cpus": [{"cpu": 0}, {"cpu": 1}]},
                     {**row, "contender": "umbra-ctbpa-pure-2", "median": 48, "ratio": 1.5},
                     {**row, "contender": "openmp-gomp-2", "median": openmp_ns, "ratio": openmp_ns / 32}]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            made = pivots.pivots(tables.Picked(data.Measured(file)))
            self.assertTrue(made.splitlines()[-1].endswith(said), made)

    def test_wrong_files_are_told(self):
        bad = self.path / "bad.json"
        good = self.json.read_text(encoding="utf-8").splitlines()[0]
        for text, said in (
            ("", f"{bad}: no line of a benchmark"),
            (good + "\n{\n", f"{bad}:2: no line of a benchmark"),
            (good + "\n[1]\n", f"{bad}:2: no line of a benchmark"),
            ('{"bench":"switch","contender":"a"}\n', f"{bad}:1: 'unit' is missing"),
        ):
            bad.write_text(text, encoding="utf-8")
            for arguments in ((bad,), (self.json, "--curves", bad)):
                ran = report(*arguments, "--out", self.path / "none.html")
                self.assertEqual((ran.returncode, ran.stderr), (2, f"tools/report: {said}\n"))
        ran = report(self.path / "missing.json")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("missing.json: No such file or directory", ran.stderr)
        figures = pathlib.Path(REPORT).parent.parent / "docs/measurements.json"
        for arguments, named in (((figures,), str(figures)), (("--nothing",), "--nothing"), (("a", "b", "c"), "3")):
            ran = report(*arguments)
            self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1))
            self.assertIn(named, ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
