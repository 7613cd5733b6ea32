#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs test programs in one emulated machine and reports what they report, in TAP.

Usage: check_machine.py TOOLS-EMULATED UMBRA-TOPOLOGY [OPTION OF TOOLS-EMULATED]... -- PROGRAM...

Two things are added to the programs' own tests: that the machine, as its kernel describes it, has
the shape that the options ask for, and that umbra-topology finds that shape. What is expected
follows from the options alone. A program that does not report in TAP is a test by itself.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SECONDS = 600  # one machine, with everything in it
UNAVAILABLE = 77
OF_PROCESSOR = "/sys/devices/system/cpu/cpu{}/topology/{}"
OF_NODE = "/sys/devices/system/node/node{}/cpulist"

# What programs that are no tests are given.
TINY = ["--quick", "--tiny", "--rounds", "1"]
ARGUMENTS = {
    "stream": ["--quick", "--tiny", "--rounds", "3", "--cpus", "0,4"],  # one on each node
    # Those that docs/papers.md names, on all processors or on two.
    **{name: TINY for name in ("channel", "cilksort", "dispatch", "event", "fib", "heat-adaptive",
                               "null-fork", "pair-matrix", "prefetch", "switch", "threshold")},
    "memcpy": [*TINY, "--only", "shadow-memcpy,prefetch-window,split"],
    "heat": [*TINY, "--only", "umbra-dispatch-pure,umbra-dispatch-buffer"],
    # The programs, on all processors or on those that --cpus names.
    "gauss/gauss": ["--size", "60", "--rounds", "1",
                    "--only", "umbra-mu1k,umbra-mu1k-pure,umbra-mu2k-pure"],
    "apsp/apsp": ["--random", "60", "--block", "12", "--rounds", "1",
                  "--only", "plain,umbra-ctbpa,umbra-ctbpa-pure", "--cpus", "0,2,4-6"],
    "heat/heat": ["--nodes", "12", "--block", "4", "--steps", "4", "--rounds", "1", "--taken", "0",
                  "--only", "umbra-dispatch,umbra-dispatch-ahead,umbra-dispatch-pure"],
    "heat/heat-adaptive": ["--nodes", "16", "--block", "4", "--steps", "2", "--cpus", "1-7"],
}

# Of these the library's own rows: the peers' threads poll, which emulation makes slow, and they are run
# where the kernels are (suite stress).
OWN_ROWS = ("apsp", "gauss", "gauss-threads", "spread")

# Tests that are left out, with the reason that is given. Everything else in tests/unit runs.
HAMMERS = "many threads that poll: emulation takes a quarter of a minute for what shows nothing new"
SAME = "emulation takes a quarter of a minute or more for what is the same on each machine"
LEFT_OUT = {
    "wait::ten_milliseconds_burn_less_than_two_percent":
        "bounds the processor time of a wait, which emulation multiplies",
    "core::who_only_waits_need_not_hold": HAMMERS,
    "core::child_process_may_start_a_runtime_of_its_own": HAMMERS,
    "core::may_be_destroyed_when_the_last_holder_has_let_go": HAMMERS,
    "children::begin_what_a_thread_of_the_parent_began_while_another_forked": SAME,
    "owners::a_child_begins_while_another_thread_is_bound_or_unbound": SAME,
    "trim::stacks_of_a_burst_go_back_while_cores_are_idle": SAME,
}


def list_of(text):
    """[0, 1, 4] of "0-1,4"."""
    ranges = [part.partition("-") for part in text.strip().split(",") if part.strip()]
    return [cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)]


class Shape:
    """What follows from the options."""

    def __init__(self, options):
        self.cores_a_socket, self.threads = options.cores, options.threads
        self.sockets = options.sockets
        self.nodes = options.nodes or options.sockets
        self.count = options.sockets * options.cores * options.threads
        self.online = [cpu for cpu in range(self.count) if cpu not in list_of(options.offline)]
        wanted = list_of(options.cpuset) or self.online
        self.usable = [cpu for cpu in self.online if cpu in wanted]

    def core(self, cpu):
        return cpu // self.threads

    def socket(self, cpu):
        return self.core(cpu) // self.cores_a_socket

    def node(self, cpu):
        return cpu * self.nodes // self.count

    def siblings(self, cpu, among):
        return [other for other in among if self.core(other) == self.core(cpu)]

    def usable_cores(self):
        """The processors of each core of which any may be used."""
        cores = {}
        for cpu in self.usable:
            cores.setdefault(self.core(cpu), []).append(cpu)
        return list(cores.values())


class Report:
    """TAP; the plan comes last."""

    def __init__(self):
        self.tests = 0
        print("TAP version 13")

    def line(self, passed, name, directive=""):
        self.tests += 1
        print(f"{'ok' if passed else 'not ok'} {self.tests} - {name}{directive}")

    def check(self, name, problems):
        for problem in problems:
            print(f"# {problem}")
        self.line(not problems, name)

    def program(self, name, result):
        """The tests of one program, or itself as one."""
        lines = result["output"].splitlines()
        counted = 0
        for line in lines:
            match = re.match(r"(not )?ok \d+ - (.*)", line)
            if match:
                counted += 1
                test, _, directive = match[2].partition(" #")
                self.line(not match[1], test, " #" + directive if directive else "")
            elif not re.match(r"1\.\.\d+$", line):
                print(f"# {line}")
        planned = re.search(r"^1\.\.(\d+)$", result["output"], re.M)
        if not planned:
            self.line(result["status"] == 0, name)
        elif int(planned[1]) != counted:
            print(f"# {counted} of {planned[1]} tests, exit status {result['status']}")
            self.line(False, f"{name} runs to its end")


# ---- what the machine's kernel says ----


def kernel_questions(shape):
    """Files, each with what it must hold."""
    answers = {"/sys/devices/system/cpu/online": shape.online}
    for cpu in shape.online:
        siblings = shape.siblings(cpu, shape.online)
        answers[OF_PROCESSOR.format(cpu, "thread_siblings_list")] = siblings
        answers[OF_PROCESSOR.format(cpu, "physical_package_id")] = [shape.socket(cpu)]
    for node in range(shape.nodes):
        answers[OF_NODE.format(node)] = [cpu for cpu in shape.online if shape.node(cpu) == node]
    return answers


def kernel_problems(shape, result):
    answers = kernel_questions(shape)
    lines = result["output"].splitlines()
    if len(lines) != len(answers):
        return [f"{len(lines)} answers to {len(answers)} questions: {lines}"]
    return [f"{path}: {line}, not {wanted}"
            for (path, wanted), line in zip(answers.items(), lines)
            if not re.fullmatch(r"[\d,-]*", line) or list_of(line) != wanted]


# ---- what umbra-topology says ----


def differ(what, found, wanted):
    return [] if found == wanted else [f"{what}: {found}, not {wanted}"]


def partition(values):
    """Which are equal, whatever they are: [0, 0, 1] of [7, 7, 9]."""
    return [values.index(value) for value in values]


def topology_problems(shape, result):
    try:
        machine = json.loads(result["output"])
    except ValueError as error:
        return [f"umbra-topology --json: {error}: {result['output'][:200]}"]
    cores = shape.usable_cores()
    first = [core[0] for core in cores]
    found = machine["cores"]
    nodes = [shape.node(cpu) for cpu in first]
    problems = differ("described", machine["described"], False)
    problems += differ("cpus", [core["cpus"] for core in found], cores)
    problems += differ("shadows", [core["shadows"] for core in found],
                       [len(core) - 1 for core in cores])
    problems += differ("node", [core["node"] for core in found], nodes)
    problems += differ("nodes", [node["node"] for node in machine["nodes"]], sorted(set(nodes)))
    problems += differ("nodes without memory",
                       [node for node in machine["nodes"] if node["bytes"] <= 0], [])
    # the emulator's level-3 caches belong to sockets, its level-2 caches to cores
    sockets = [shape.socket(cpu) for cpu in first]
    problems += differ("l3s", machine["l3s"], len(set(sockets)))
    problems += differ("sharing of l3", partition([core["l3"] for core in found]),
                       partition(sockets))
    problems += differ("sharing of l2", partition([core["l2"] for core in found]),
                       partition(list(range(len(cores)))))
    return problems


def table_problems(shape, result):
    wanted = (f"cores {len(shape.usable_cores())}, hardware threads {len(shape.usable)}, "
              f"L3 caches {len({shape.socket(cpu) for cpu in shape.usable})}, "
              f"NUMA nodes {len({shape.node(cpu) for cpu in shape.usable})}")
    return [] if wanted in result["output"] else [f"no '{wanted}' in: {result['output']}"]


# ---- the programs ----


def given_to(program):
    """What ARGUMENTS has for FOLDER/NAME, else for NAME, else None."""
    folder, name = program.split("/")[-2:]
    for_program = ARGUMENTS.get(f"{folder}/{name}")
    if not for_program and name in OWN_ROWS:
        own = [row for row in listed(program, *TINY) if row.startswith("umbra")]
        return [*TINY, "--only", ",".join(own)]
    return for_program or ARGUMENTS.get(name)


def listed(program, *arguments):
    return subprocess.run([program, *arguments, "--list"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()


def arguments_for(program):
    """For a program with tests to be left out: the names of the others, and of those."""
    source = os.path.basename(program)
    left_out = [name for name in LEFT_OUT if source == "test_" + name.partition("::")[0]]
    if not left_out:
        return [], []
    names = listed(program)
    missing = set(left_out) - set(names)
    if missing:
        sys.exit(f"{source} has no test {', '.join(missing)}")
    return [name for name in names if name not in left_out], left_out


def arguments_of():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("emulated")
    parser.add_argument("topology")
    for name, default in (("sockets", 2), ("cores", 2), ("threads", 2), ("nodes", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--offline", default="")
    parser.add_argument("--cpuset", default="")
    parser.add_argument("--with", default="")
    cut = sys.argv.index("--")
    arguments = parser.parse_args(sys.argv[1:cut])
    return arguments, sys.argv[3:cut], sys.argv[cut + 1:]


def main():
    options, shape_arguments, programs = arguments_of()
    shape = Shape(options)
    report = Report()
    runs = [["cat", *kernel_questions(shape)], [options.topology, "--json"], [options.topology]]
    for program in programs:
        chosen, left_out = arguments_for(program)
        runs.append([program, *(given_to(program) or chosen)])
        for name in left_out:
            report.line(True, name, f" # SKIP {LEFT_OUT[name]}")
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "results")
        joined = [word for run in runs for word in ["+", *run]][1:]
        done = subprocess.run([options.emulated, *shape_arguments, f"--timeout={SECONDS}",
                               f"--results={file}", *joined], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == UNAVAILABLE:
            print(f"1..0 # SKIP {done.stderr.strip()}")
            return
        results = []
        if os.path.exists(file):
            with open(file, encoding="utf-8") as results_file:
                results = json.load(results_file)
    ended = [result for result in results if result["status"] is not None]
    if len(ended) > 2:
        report.check("machine: its kernel finds the shape", kernel_problems(shape, ended[0]))
        report.check("machine: umbra-topology finds the shape",
                     topology_problems(shape, ended[1]))
        report.check("machine: umbra-topology's tables do", table_problems(shape, ended[2]))
    for program, result in zip(programs, ended[3:]):
        report.program(os.path.basename(program), result)
    if len(ended) < len(runs):
        unfinished = results[len(ended)]["output"].splitlines()[-8:] if results else []
        report.check("machine: all programs end", [*unfinished, *done.stderr.splitlines()])
    print(f"1..{report.tests}")


if __name__ == "__main__":
    main()
