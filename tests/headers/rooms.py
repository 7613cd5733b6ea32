#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks the plan of include/ (docs/design.md, Floors) by the include lines.

    rooms.py ROOT

A subject is a face, umbra/SUBJECT.h, with a folder beside it. Checked: no two files have the same
name, but for protocol.h; a file in a subject's folder is included by that subject alone, but for
protocol.h, which stands for its folder's protocols; and the subjects' include lines make no circle.
Each protocol counts as a subject of its own there, since protocols lie below all cores and fibers.
"""
import collections
import graphlib
import pathlib
import re
import sys

OPEN = {"arch", "base", "os"}  # folders without a face


def subject(path):
    return path.parts[0] if len(path.parts) > 1 else path.stem


def main():
    root = pathlib.Path(sys.argv[1]) / "include" / "umbra"
    lines = {}
    for file in sorted(root.rglob("*.h")):
        text = file.read_text(encoding="utf-8")
        lines[file.relative_to(root)] = [
            pathlib.Path(name) for name in re.findall(r"^#include <umbra/(.*)>", text, re.M)]
    bad = []

    names = collections.defaultdict(list)
    for path in lines:
        names[path.name].append(str(path))
    bad += [f"one name for {' and '.join(paths)}" for name, paths in names.items()
            if len(paths) > 1 and name != "protocol.h"]

    protocols = {path for path in lines if path.name == "protocol.h"}
    for path in list(protocols):
        protocols |= {other for other in lines[path] if other.parent == path.parent}

    def room(path):
        return str(path) if path in protocols else subject(path)

    arrows = collections.defaultdict(set)
    for path, included in lines.items():
        for other in included:
            if other not in lines:
                bad.append(f"{path} includes {other}, which does not exist")
            elif subject(other) != subject(path):
                arrows[room(path)].add(room(other))
                inside = len(other.parts) > 1 and subject(other) not in OPEN
                if inside and other.name != "protocol.h":
                    bad.append(f"{path} includes {other}: include umbra/{subject(other)}.h or "
                               f"umbra/{subject(other)}/protocol.h")
            elif room(path) != room(other):
                arrows[room(path)].add(room(other))
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        bad.append("a circle: " + " -> ".join(reversed(error.args[1])))

    for line in bad:
        print(line)
    print(f"{len(lines)} headers, {len(bad)} faults")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
