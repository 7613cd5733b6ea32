#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the files of mpi/ and mpi/image/ call each other in no circle.

    calls.py ROOT

A source and the header of its name are one file here. An arrow from one to another is a name that
the other alone defines, a function or a variable, in the text of the first; declarations are none.
Names of the C library's are left out: what takes the place of exit() is not what its callers know.
Also checked: include lines make no circle, mpi/ includes image.h and seat.h of mpi/image/ only, and
no two files of mpi/ and include/ have one name.
"""
import collections
import graphlib
import pathlib
import re
import sys

NAME = r"\b((?:um|umbra|MPI)_\w+)"
# What is not static, at the beginning of a line: a function with its body, a variable, a label in
# assembly.
DEFINED = [
    re.compile(r"^(?!static\b|typedef\b)\w[^;{}=#]*?" + NAME + r"\([^;{}]*\)\s*\{", re.M),
    re.compile(r"^(?!static\b|typedef\b)\w[^;{}()=]* \**" + NAME + r"(?: =[^;]*)?;", re.M),
    re.compile(r'^ *(?:__asm__\()?"(um_\w+):\\n"', re.M),
]
DECLARED = re.compile(r"^extern\b[^;]*;|^\w[^;{}=#]*\([^;{}]*\);|\b(?:struct|enum|union) \w+", re.M)
SAME_NAME = {"meson.build", "protocol.h"}


def circle(arrows, what):
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return [f"a circle by {what}: " + " -> ".join(reversed(error.args[1]))]
    return []


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    texts, includes, named = collections.defaultdict(str), {}, collections.defaultdict(list)
    for path in sorted((root / "mpi").rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        texts[str(path.relative_to(root).with_suffix(""))] += text
        includes[str(path)] = {str((path.parent / name).resolve())
                               for name in re.findall(r'^#include "(.*)"', text, re.M)}
    for folder in ("mpi", "include"):
        for path in (root / folder).rglob("*.*"):
            named[path.name].append(str(path.relative_to(root)))

    defined = collections.defaultdict(set)
    for file, text in texts.items():
        for pattern in DEFINED:
            for name in pattern.findall(DECLARED.sub("x", text)):
                defined[name].add(file)
    arrows = {file: {next(iter(defined[name]))
                     for name in re.findall(NAME, DECLARED.sub("x", text))
                     if len(defined.get(name, ())) == 1} - {file}
              for file, text in texts.items()}

    bad = circle(arrows, "calls") + circle(includes, "include lines")
    bad += [f"{file} includes {other}" for file, others in includes.items() for other in others
            if "/mpi/image/" in other and "/mpi/image/" not in file
            and not other.endswith(("/image.h", "/seat.h"))]
    bad += [f"one name for {' and '.join(paths)}" for name, paths in named.items()
            if len(paths) > 1 and name not in SAME_NAME]
    for line in bad:
        print(line)
    count = sum(map(len, arrows.values()))
    print(f"{len(texts)} files, {len(defined)} names, {count} arrows, {len(bad)} faults")
    return bool(bad) or count < len(texts)


if __name__ == "__main__":
    sys.exit(main())
