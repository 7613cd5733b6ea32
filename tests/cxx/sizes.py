#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Structs are the same in C and C++: sizes.py CC CXX INCLUDE LIBRARY

Compares the size and alignment of all structs that the headers show, public and private. LIBRARY
is libumbra.so.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

CC, CXX, INCLUDE, LIBRARY = *sys.argv[1:4], pathlib.Path(sys.argv[4]).resolve()
OPTIONS = ["-DUMBRA_SHARED", "-O1", f"-I{INCLUDE}"]
HEADERS = "#include <stdio.h>\n#include <umbra.h>\n#ifdef __linux__\n#include <umbra/io.h>\n#endif\n"
STRUCT = re.compile(r"^struct (um(?:bra)?_\w+)\s*\{", re.M)


def shown(compiler, include):
    """The structs that the headers define."""
    text = subprocess.run([compiler, "-x", "c", "-E", "-P", "-std=c11", f"-I{include}", "-"], input=HEADERS,
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    return STRUCT.findall(text)


def program(structs):
    """Prints a line a struct; read as C and as C++."""
    lines = [f'printf("{name} %zu %zu\\n", sizeof(struct {name}), __alignof__(struct {name}));\n'
             for name in structs]
    return "".join([HEADERS, "int main(void)\n{\n", *lines, "return 0;\n}\n"])


def said(folder, text, suffix, command):
    """What the program prints, compiled by a command."""
    source, executable = folder / f"program{suffix}", folder / "program"
    source.write_text(text)
    subprocess.run([*command, source, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-o", executable], check=True)
    return subprocess.run([executable], stdout=subprocess.PIPE, text=True, check=True).stdout


def main():
    structs = shown(CC, INCLUDE)
    text = program(structs)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        in_c = said(folder, text, ".c", [CC, "-std=c11", *OPTIONS])
        print(f"{len(structs)} structs")
        failed = len(structs) < 60
        for standard in ("c++17", "c++20"):
            in_cxx = said(folder, text, ".cpp", [CXX, f"-std={standard}", *OPTIONS])
            for ours, theirs in zip(in_c.splitlines(), in_cxx.splitlines()):
                if ours != theirs:
                    print(f"C:   {ours}\n{standard}: {theirs}")
                    failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
