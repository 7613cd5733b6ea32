#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks the man pages: check_manual.py ROOT

Each public function has one, each page an example, and mandoc finds nothing to warn of. Exit status 77:
libclang for Python, or mandoc, is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

# A macro that the program defines for the compiler, and an index of arrays in a struct.
NO_EXAMPLE = {"UMBRA_ASSERT", "umbra_poll_place"}


def pages_of(root, folder):
    """The pages of section 3 by name, and what is wrong."""
    more = [root / path for path in ("tools/umbra-omp", "docs/openmp.md", "docs/mpi.md")]
    wrong = subprocess.run([root / "tools/manual", folder, *more], stdout=subprocess.PIPE, text=True,
                           check=False).stdout.splitlines()
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *sorted(folder.glob("man?/*"))],
                          stdout=subprocess.PIPE, text=True, check=False)
    return {path.stem: path.read_text() for path in (folder / "man3").iterdir()}, wrong + lint.stdout.splitlines()


def main():
    root = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(root / "tests/headers"))
    from public_functions import public_functions  # pylint: disable=import-outside-toplevel
    for needed in (["/usr/bin/python3", "-c", "import clang.cindex"], ["mandoc", "/dev/null"]):
        try:
            subprocess.run(needed, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            print(f"not here: {needed}")
            return 77
    with tempfile.TemporaryDirectory() as folder:
        pages, wrong = pages_of(root, pathlib.Path(folder))
    wrong += [f"{name}: no page" for name in sorted(public_functions(root / "include") - pages.keys())]
    wrong += [f"{name}: no example" for name, text in sorted(pages.items())
              if ".SH EXAMPLE" not in text and name not in NO_EXAMPLE]
    print(*wrong, f"{len(pages)} pages of section 3", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
