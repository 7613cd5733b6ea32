#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs the program that makes calls fail (main.c), and says what became of each fault.

    report.py [--docs FILE] PROGRAM [SCENARIO...]

Prints a table by call, the call sites that no fault has reached, and each fault that was bad. Ends
with 1 if a fault was bad, if a scenario fails without faults, or if the library makes a call that
neither fails here nor is known to have no errors. All scenarios: also if there were too few faults.
--docs: writes the table to the page, between its marks.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

GOOD = ('absorbed', 'error')
LEAST_FAULTS, LEAST_SITES = 1000, 100

# Calls that have no errors, or none with these arguments.
NO_ERRORS = set('''
    __cxa_get_globals __dso_handle __errno_location __morestack _GLOBAL_OFFSET_TABLE_
    jump_fcontext make_fcontext
    abort bcmp clock_gettime dl_iterate_phdr exit free getenv memchr memcmp memcpy memmove memset
    qsort raise
    sched_yield snprintf stpcpy strcat strchr strcmp strcpy strcspn strerror strlen strncmp strncpy
    strstr time vsnprintf __isoc99_sscanf __isoc23_sscanf sscanf
    lseek omp_in_parallel pthread_attr_destroy
    pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_wait pthread_join
    pthread_key_delete pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock
    pthread_mutex_unlock pthread_setcancelstate fclose
    hwloc_bitmap_fill hwloc_bitmap_first hwloc_bitmap_free hwloc_bitmap_isequal
    hwloc_bitmap_isincluded hwloc_bitmap_isset hwloc_bitmap_iszero hwloc_bitmap_last
    hwloc_bitmap_weight
    hwloc_get_nbobjs_by_depth hwloc_get_obj_by_depth hwloc_get_type_depth hwloc_topology_destroy
    hwloc_topology_get_allowed_cpuset hwloc_topology_get_support hwloc_topology_is_thissystem
    hwloc_cpukinds_get_info io_uring_free_probe io_uring_queue_exit'''.split())


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Program:
    """The program's calls: by the address after each, the name and where it is in the source."""

    def __init__(self, path):
        self.path = path
        self.calls = {}  # that are wrapped
        self.others = {}  # of shared libraries
        symbols = {}
        for line in output('nm', path).splitlines():
            words = line.split()
            if len(words) == 3:
                symbols[words[2]] = int(words[0], 16)
        self.start = symbols['__executable_start']
        self.read_calls()
        self.read_places()

    def read_calls(self):
        before = None
        for line in output('objdump', '-d', '--no-show-raw-insn', self.path).splitlines():
            found = re.match(r'\s*([0-9a-f]+):\s', line)
            if not found:
                continue
            if before:
                where = self.calls if before.group(1) else self.others
                where[int(found.group(1), 16) - self.start] = before.group(2)
            before = re.search(r'\s(?:callq?|bl|jal\S*)\s.*<(__wrap_)?(\w+)(?:@plt)?>$', line)

    def unknown_calls(self):
        """Of the library: those that end in a shared library, and may have errors."""
        undefined = {name.split('@')[0] for name in output('nm', '-u', self.path).split()}
        return sorted({(name, self.place(at)) for at, name in self.others.items()
                       if name in undefined and name not in NO_ERRORS and self.of_library(at)
                       and not re.match('__(asan|ubsan|sanitizer|stack_chk)', name)})

    def read_places(self):
        """Where each call is: function and line, of the innermost inlined function."""
        at = sorted([*self.calls, *self.others])
        asked = '\n'.join(hex(address + self.start - 1) for address in at)
        lines = subprocess.run(('addr2line', '-f', '-e', self.path), input=asked, check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.places = {}
        for i, address in enumerate(at):
            where = re.sub(r'.*/include/', '', lines[2 * i + 1]).split(' ')[0]
            self.places[address] = (lines[2 * i], where)

    def of_library(self, address):
        return self.places[address][1].startswith('umbra/')

    def place(self, address):
        return '{0[1]} {0[0]}'.format(self.places.get(address, ('?', '?')))


Fault = collections.namedtuple('Fault', 'scenario call at nth error way outcome value')


def run_faults(path, scenarios):
    """What the program prints: its sites' counts, its faults, what fails without faults."""
    sites, faults, problems = collections.Counter(), [], []
    start = 0
    with tempfile.TemporaryDirectory() as folder:  # of its traces
        done = subprocess.run((os.path.abspath(path), *scenarios), stdout=subprocess.PIPE, text=True,
                              check=False, cwd=folder)
    for line in done.stdout.splitlines():
        words = line.split() or ['']
        if words[0] == 'start':
            start = int(words[1], 16)
        elif words[0] == 'clean' and words[2] == 'skipped':
            print(f'{words[1]}: skipped, error {words[3]}')
        elif words[0] == 'clean' and words[2] != 'unreached':
            problems.append(f'without faults: {line}')
        elif words[0] == 'site':
            sites[(words[2], int(words[3], 16) - start)] += int(words[4])
        elif words[0] == 'fault':
            faults.append(Fault(words[1], words[2], int(words[3], 16) - start, *words[4:]))
    return sites, faults, problems, done.returncode


def table_of(faults):
    by_call = collections.defaultdict(collections.Counter)
    places = collections.defaultdict(set)
    for fault in faults:
        by_call[fault.call][fault.outcome] += 1
        places[fault.call].add(fault.at)
    lines = ['| call | sites | tried | absorbed | clean error | bad |',
             '| --- | --: | --: | --: | --: | --: |']
    total = collections.Counter(sites=0)
    for call in sorted(by_call):
        counts = by_call[call]
        row = {'sites': len(places[call]), 'tried': sum(counts.values()),
               'absorbed': counts['absorbed'], 'error': counts['error']}
        row['bad'] = row['tried'] - row['absorbed'] - row['error']
        total.update(row)
        lines.append('| {} | {} |'.format(call.replace('syscall:', 'syscall '),
                                          ' | '.join(str(value) for value in row.values())))
    lines.append('| **all** | {} |'.format(
        ' | '.join(str(total[name]) for name in ('sites', 'tried', 'absorbed', 'error', 'bad'))))
    return lines, total


def write_docs(page, lines):
    """Puts the table between the marks of the page."""
    with open(page, encoding='utf-8') as file:
        before, rest = file.read().split('<!-- faults -->\n', 1)
        after = rest.split('<!-- end -->\n', 1)[1]
    with open(page, 'w', encoding='utf-8') as file:
        file.write(before + '<!-- faults -->\n' + '\n'.join(lines) + '\n<!-- end -->\n' + after)


def print_unreached(program, sites):
    reached = {at for _, at in sites}
    unreached = [(program.place(at), name) for at, name in program.calls.items()
                 if at not in reached and program.of_library(at) and name not in NO_ERRORS]
    print(f'{len(unreached)} call sites that no run reaches:')
    for place, name in sorted(unreached):
        print(f'  {name:28} {place}')


def print_bad(program, faults):
    for fault in sorted(faults):
        if fault.outcome not in GOOD:
            print('bad:', *fault._replace(at=program.place(fault.at)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--docs')
    parser.add_argument('program')
    parser.add_argument('scenario', nargs='*')
    asked = parser.parse_args()
    began = time.monotonic()
    program = Program(asked.program)
    sites, faults, problems, status = run_faults(asked.program, asked.scenario)
    missed = sum(fault.outcome == 'unreached' for fault in faults)
    faults = [fault for fault in faults if fault.outcome != 'unreached']
    lines, total = table_of(faults)
    print('\n'.join(lines))
    print_unreached(program, sites)
    print_bad(program, faults)
    if status != 0:
        problems.append(f'the program ended with status {status}')
    problems += ['neither fails here nor is known to have no errors: {} {}'.format(*call)
                 for call in program.unknown_calls()]
    if not asked.scenario and (total['tried'] < LEAST_FAULTS or total['sites'] < LEAST_SITES):
        problems.append(f'fewer than {LEAST_FAULTS} faults at {LEAST_SITES} sites')
    print(*problems, sep='\n', end='\n' if problems else '')
    summary = f'{total["tried"]} faults at {total["sites"]} call sites, {total["bad"]} bad'
    print(f'{summary}; {missed} not reached again; {time.monotonic() - began:.0f} s')
    if asked.docs:
        write_docs(asked.docs, lines)
    return 1 if total['bad'] or problems else 0


if __name__ == '__main__':
    sys.exit(main())
