#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""tools/umbra-topology: its tables, its JSON, and what it says to bad input.

Usage: test_umbra_topology_tool.py PATH-OF-UMBRA-TOPOLOGY. Exit 77: the tool was not built.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOOL = ""
TWO_NODES = "pack:2 numa:1 l3:1 core:2 pu:2"
BACKENDS = ["pause", "waitpkg", "monitorx", "mwait", "wfe", "wfet", "zawrs", "power-wait"]

# One core of two hardware threads, one core whose second one is offline.
OFFLINE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x7" complete_cpuset="0xf" allowed_cpuset="0x7"
 nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1">
<object type="NUMANode" os_index="0" cpuset="0x7" complete_cpuset="0xf"
 nodeset="0x1" complete_nodeset="0x1" local_memory="1073741824"/>
<object type="Core" os_index="0" cpuset="0x3" complete_cpuset="0x3"
 nodeset="0x1" complete_nodeset="0x1">
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1"
 nodeset="0x1" complete_nodeset="0x1"/>
<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2"
 nodeset="0x1" complete_nodeset="0x1"/>
</object>
<object type="Core" os_index="1" cpuset="0x4" complete_cpuset="0xc"
 nodeset="0x1" complete_nodeset="0x1">
<object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4"
 nodeset="0x1" complete_nodeset="0x1"/>
</object>
</object>
</topology>
"""

# The same; the second core is the big one.
LITTLE_FIRST = OFFLINE.replace("</topology>", """<cpukind cpuset="0x3" forced_efficiency="10"/>
<cpukind cpuset="0x4" forced_efficiency="20"/>
</topology>""")


def run(*arguments, **environment):
    """The finished process, started without the variables that would change its answer."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HWLOC_", "UMBRA_"))}
    return subprocess.run([TOOL, *arguments], env={**clean, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)


class Tool(unittest.TestCase):
    def succeeds(self, *arguments, **environment):
        done = run(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def is_refused(self, naming, *arguments, **environment):
        """One line on standard error that names the value, nothing else, status 2."""
        done = run(*arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(naming, done.stderr)

    def test_tables_show_this_machine(self):
        text = self.succeeds()
        self.assertIn("Machine: this one", text)
        cpus = int(re.search(r"hardware threads (\d+)", text).group(1))
        self.assertEqual(cpus, len(os.sched_getaffinity(0)))

    def test_tables_show_cores_with_shadows_and_siblings(self):
        text = self.succeeds("--synthetic", TWO_NODES)
        self.assertIn("Machine: a description", text)
        self.assertIn("cores 4, hardware threads 8, L3 caches 2, NUMA nodes 2", text)
        self.assertRegex(text, r"(?m)^ +3 +1 +- +- +#1 \d+ MiB +1 +6 7$")

    def test_tables_name_every_back_end_with_a_reason(self):
        text = self.succeeds()
        for name in BACKENDS:
            self.assertRegex(text, rf"(?m)^[ *] {name} +(yes|no) +(yes|no) +\S+ +\S+ +\S.*$")
        self.assertEqual(len(re.findall(r"(?m)^\* ", text)), 1)

    def test_one_hardware_thread_has_no_near_one(self):
        self.assertIn("No second hardware thread", self.succeeds("--synthetic", "core:1 pu:1"))

    def test_json_describes_every_core(self):
        machine = json.loads(self.succeeds("--json", "--synthetic", "numa:2 l3:1 core:2 pu:4"))
        self.assertTrue(machine["described"])
        self.assertEqual([c["core"] for c in machine["cores"]], [0, 1, 2, 3])
        self.assertEqual([c["shadows"] for c in machine["cores"]], [3, 3, 3, 3])
        self.assertEqual(machine["cores"][1]["cpus"], [4, 5, 6, 7])
        self.assertEqual([c["node"] for c in machine["cores"]], [0, 0, 1, 1])
        self.assertIsNone(machine["cores"][0]["l2"])
        self.assertEqual([n["node"] for n in machine["nodes"]], [0, 1])
        self.assertEqual(machine["l3s"], 2)

    def test_says_which_gaps_were_measured_and_none_of_a_described_machine(self):
        for gap in json.loads(self.succeeds("--json"))["gaps"]:
            self.assertIn(gap["pair"], ["L3", "less"])
            self.assertIn(gap["place"], ["slot", "other"])
            self.assertGreater(gap["ns"][gap["gap"]], 0)
            self.assertGreater(gap["ns"][gap["usual"]], 0)
        self.assertIn("Gaps between two polls", self.succeeds())
        self.assertNotIn("Gaps between two polls", self.succeeds("--synthetic", TWO_NODES))
        self.assertEqual(json.loads(self.succeeds("--json", UMBRA_WAIT="gap=fence"))["gaps"], [])

    def test_json_is_one_line(self):
        self.assertEqual(self.succeeds("--json").count("\n"), 1)

    def test_json_says_which_back_end_and_why_not_the_others(self):
        wait = json.loads(self.succeeds("--json"))["wait"]
        self.assertEqual([b["name"] for b in wait["backends"]], BACKENDS)
        self.assertIn(wait["chosen"], BACKENDS)
        self.assertGreater(wait["cycles_hz"], 0)
        for backend in wait["backends"]:
            self.assertTrue(backend["reason"])
            self.assertEqual(backend["chosen"], backend["name"] == wait["chosen"])
            self.assertTrue(backend["usable"] or not backend["chosen"])

    def test_a_back_end_that_traps_is_rejected_with_its_cost(self):
        wait = json.loads(self.succeeds("--json"))["wait"]
        traps = [b for b in wait["backends"] if b["reason"].startswith("traps")]
        if not traps:
            self.skipTest("no wait instruction traps on this machine")
        for backend in traps:
            self.assertFalse(backend["usable"])
            self.assertIn(str(backend["expired_cycles"]), backend["reason"])

    def test_an_xml_file_is_read_and_offline_processors_are_left_out(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(OFFLINE)
            file.flush()
            cores = json.loads(self.succeeds("--json", "--xml", file.name))["cores"]
            self.assertEqual([c["cpus"] for c in cores], [[0, 1], [2]])
            self.assertEqual([c["shadows"] for c in cores], [1, 0])
            text = self.succeeds(HWLOC_XMLFILE=file.name)
            self.assertIn("cores 2, hardware threads 3", text)

    def test_kinds_of_cores_are_shown_where_they_differ(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(LITTLE_FIRST)
            file.flush()
            cores = json.loads(self.succeeds("--json", "--xml", file.name))["cores"]
            if "kind" not in cores[0]:
                self.skipTest("this hwloc knows no kinds of cores")
            self.assertEqual([(c["kind"], c["cpus"]) for c in cores], [(0, [2]), (1, [0, 1])])
            text = self.succeeds("--xml", file.name)
            self.assertRegex(text, r"(?m)^  core  kind  shadows ")
            self.assertRegex(text, r"(?m)^ +1 +1 +1 .* 0 1$")
        self.assertNotIn("kind", self.succeeds("--synthetic", TWO_NODES).split("Waiting")[0])
        alike = json.loads(self.succeeds("--json", "--synthetic", TWO_NODES))["cores"]
        self.assertNotIn("kind", alike[0])

    def test_the_environment_can_describe_the_machine(self):
        self.assertIn("cores 3, hardware threads 24", self.succeeds(HWLOC_SYNTHETIC="core:3 pu:8"))

    def test_a_forced_back_end_is_told(self):
        self.assertIn("Waiting: pause, forced by UMBRA_WAIT", self.succeeds(UMBRA_WAIT="pause"))
        forced = json.loads(self.succeeds("--json", UMBRA_WAIT="pause"))["wait"]["forced"]
        self.assertEqual(forced, "pause")
        self.assertIsNone(json.loads(self.succeeds("--json"))["wait"]["forced"])

    def test_help_is_printed(self):
        self.assertIn("Usage: umbra-topology", self.succeeds("--help"))

    def test_bad_options_are_refused_by_name(self):
        self.is_refused("frobnicate", "--frobnicate")  # musl says it without the dashes
        self.is_refused("synthetic", "--synthetic")
        self.is_refused("extra", "--json", "extra")
        self.is_refused("/no/such.xml", "--synthetic", "pu:2", "--xml", "/no/such.xml")

    def test_bad_descriptions_are_refused_by_name(self):
        self.is_refused("nonsense", "--synthetic", "nonsense")
        self.is_refused("/no/such.xml", "--xml", "/no/such.xml")
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<topology")
            file.flush()
            self.is_refused(file.name, "--xml", file.name)

    def test_the_default_number_of_cores_is_told(self):
        machine = json.loads(self.succeeds("--json"))
        self.assertGreaterEqual(machine["quota"], 0)
        least = min(len(machine["cores"]), machine["quota"] or len(machine["cores"]))
        self.assertEqual(machine["default_cores"], least)
        self.assertIn(f"cores of a runtime by default: {least}\n", self.succeeds())
        self.assertEqual("CPU quota" in self.succeeds(), machine["quota"] > 0)
        described = json.loads(self.succeeds("--json", "--synthetic", TWO_NODES))
        self.assertEqual((described["quota"], described["default_cores"]), (0, 4))
        described = json.loads(self.succeeds("--json", "--synthetic", TWO_NODES, UMBRA_CORES="3"))
        self.assertEqual(described["default_cores"], 3)
        self.is_refused("UMBRA_CORES=many", UMBRA_CORES="many")

    def test_an_unknown_umbra_wait_is_refused_by_name(self):
        self.is_refused("quantum", UMBRA_WAIT="quantum")

    def test_output_that_cannot_be_written_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for arguments in ([], ["--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([TOOL, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else "umbra-topology"
    if not os.access(TOOL, os.X_OK):
        print(f"{TOOL}: not built", file=sys.stderr)
        sys.exit(77)
    unittest.main()
