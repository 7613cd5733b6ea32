#!/usr/bin/python3
# SPDX-License-Identifier: BSL-1.0
"""README.md, docs/, CONTRIBUTING.md: what they show works, and what they point to is there.

check_docs.py SOURCE BUILD [DOCUMENT...]

What follows the language of a code block says what is done with it, in a folder that looks like a
clone: everything of SOURCE, with BUILD as build/run. Blocks of one document share the folder.

  ```c                 the block stands in a program of examples/, line for line
  ```c part=PATH       the block stands in that file of the repository, line for line (any language)
  ```c file=PATH       the block becomes this file; .c and .cpp are compiled, strictly
  ```sh                runs
  ```sh check          takes long, or changes the machine: each program is there and knows each option
  ```console           lines that begin with "$ " run; what they print is what follows, but for
                       numbers, addresses and the order of lines
  ```gdb               each command is one that gdb knows once tools/umbra-gdb.py is loaded
  ```text              a drawing: nothing is done

Anything else is an error. (CONTRIBUTING.md: only names and links, since its commands work in folders
that tools/test makes.) Names of files in `quotes` that begin with a folder of the repository must
be there, names of functions and macros must be in a header or a tool, and links must lead to a file
and a heading.
"""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
NAMED = [pathlib.Path(path).resolve() for path in sys.argv[3:]]
DOCUMENTS = NAMED or [
    SOURCE / "README.md",
    SOURCE / "CONTRIBUTING.md",
    *sorted((SOURCE / "docs").glob("*.md")),
]
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude", "-I."]
FENCE = re.compile(r"^( *)```(\S*) *(.*)$")
FOLDERS = ("bench", "docs", "examples", "include", "mpi", "packaging", "tests", "tools")
SKIPPED = 77


class Block:
    """A code block: where it stands, its language, the words after that, its text."""

    def __init__(self, line, language, words):
        self.line, self.language = line, language
        self.flags = {word for word in words.split() if "=" not in word}
        self.values = dict(word.split("=", 1) for word in words.split() if "=" in word)
        self.lines = []

    @property
    def text(self):
        return textwrap.dedent("\n".join(self.lines)) + "\n"

    @property
    def commands(self):
        """Lines without comments, those that end in a backslash joined."""
        joined = self.text.replace("\\\n", " ")
        return [line for line in (re.sub(r"(^|\s)#.*", "", each).strip() for each in joined.splitlines())
                if line]


def blocks_of(path):
    """The code blocks of a document, and its prose: the lines outside of them."""
    blocks, prose, inside = [], [], None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and inside is None:
            inside = Block(number, fence[2], fence[3])
        elif fence:
            blocks.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
        else:
            prose.append((number, line))
    if inside is not None:
        raise AssertionError(f"{path}:{inside.line}: a code block has no end")
    return blocks, prose


def stands_in(text, path):
    """True if the lines stand in the file one after the other; their common indentation may differ."""
    wanted = textwrap.dedent(text).splitlines()
    lines = path.read_text(encoding="utf-8").splitlines()
    return any(
        textwrap.dedent("\n".join(lines[at : at + len(wanted)])).splitlines() == wanted
        for at in range(len(lines) - len(wanted) + 1)
    )


def without_numbers(line):
    """A line of output as it is compared: addresses, numbers and spaces are not what it says."""
    line = re.sub(r"0x[0-9a-f]+|\d[\d.,]*", "N", line)
    line = re.sub(r"\([^()]*?([\w.]+):N\)", r"(\1:N)", line)  # the way from the build to the source
    return re.sub(r"\s+", " ", line).strip()


class Clone:
    """A folder that looks like a clone in which tools/run has been."""

    def __init__(self, path):
        self.path = pathlib.Path(path) / "umbra"
        (self.path / "build").mkdir(parents=True)
        for entry in SOURCE.iterdir():
            if entry.name not in ("build", "report", ".git"):
                (self.path / entry.name).symlink_to(entry)
        (self.path / "build/run").symlink_to(BUILD)
        home = pathlib.Path(path) / "home"
        home.mkdir()
        self.environment = {**os.environ, "HOME": str(home), "UMBRA_SKIP_SETUP": "1"}

    def run(self, *command, **more):
        return subprocess.run(
            command, cwd=self.path, env=self.environment, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=300, check=False, **more)

    def shell(self, text):
        return self.run("bash", "-euo", "pipefail", "-c", text)


def knows(program, option):
    """True if the program, a file, says something of the option: a script in its text, others by --help."""
    if program.read_bytes()[:2] == b"#!":
        return option in program.read_text(encoding="utf-8")
    told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return option in told.stdout + told.stderr + strings_of(program)


def strings_of(program):
    return program.read_bytes().decode("latin-1")


class Document(unittest.TestCase):
    """One document; each check says the line."""

    path = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.clone = Clone(cls.folder.name)
        cls.blocks, cls.prose = blocks_of(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def at(self, line):
        return self.subTest(f"{self.path.relative_to(SOURCE)}:{line}")

    def test_code_blocks(self):
        if self.path.name == "CONTRIBUTING.md":
            self.skipTest("its commands work in folders that tools/test makes")
        for block in self.blocks:
            with self.at(block.line):
                if "part" in block.values:
                    path = SOURCE / block.values["part"]
                    self.assertTrue(stands_in(block.text, path), f"is no part of {path}")
                elif "file" in block.values:
                    self.write(block)
                else:
                    kind = getattr(self, f"try_{block.language or 'nothing'}", None)
                    self.assertIsNotNone(kind, f"'{block.language}': see check_docs.py")
                    kind(block)

    def write(self, block):
        path = self.clone.path / block.values["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        if path.suffix in (".c", ".cpp"):
            compiler = ["cc", *STRICT] if path.suffix == ".c" else ["c++", "-std=c++17", *STRICT[1:]]
            self.succeeds(self.clone.run(*compiler, "-c", str(path), "-o", "/dev/null"))

    def succeeds(self, ran):
        if ran.returncode != SKIPPED:
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def try_c(self, block):
        programs = SOURCE.glob("examples/**/*.c")
        self.assertTrue(any(stands_in(block.text, path) for path in programs), "is in no example")

    def try_text(self, block):
        pass

    def try_sh(self, block):
        if "check" not in block.flags:
            self.succeeds(self.clone.shell(block.text))
            return
        for command in block.commands:
            with self.subTest(command):
                self.check_command(command)

    def check_command(self, command):
        words = shlex.split(command)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        program = self.clone.path / words[0]
        if not program.exists() and words[0].startswith("build/run/"):
            self.assertTrue(self.in_meson(words[0]), f"nothing builds {words[0]}")
            return
        if not program.exists():
            self.assertIsNotNone(shutil.which(words[0]), f"there is no {words[0]}")
            return
        self.assertTrue(os.access(program, os.X_OK), f"{words[0]} cannot be executed")
        for word in words[1:]:
            if word.startswith("--"):
                self.assertTrue(knows(program.resolve(), word.split("=")[0]), f"{words[0]} has no {word}")

    def in_meson(self, program):
        """True if some meson.build names the program: this build leaves it out."""
        name = program.rsplit("/", 1)[1]
        return any(f"'{name}'" in path.read_text(encoding="utf-8") for path in SOURCE.glob("*/**/meson.build"))

    def try_console(self, block):
        parts = re.split(r"^\$ (.*)\n", block.text, flags=re.M)
        for command, shown in zip(parts[1::2], parts[2::2]):
            printed = self.clone.run("bash", "-c", command).stdout
            said, seen = ([without_numbers(line) for line in text.splitlines()] for text in (shown, printed))
            self.assertEqual(sorted(said), sorted(seen), command)

    def try_gdb(self, block):
        if shutil.which("gdb") is None:
            self.skipTest("there is no gdb")
        for line in block.lines:
            command = re.sub(r"\s{2,}.*", "", line.removeprefix("(gdb) "))
            words = command.split()
            if words[0] == "source":
                self.assertTrue((SOURCE / words[1]).exists(), words[1])
                continue
            told = self.clone.run(
                "gdb", "-nx", "-batch", "-ex", "source tools/umbra-gdb.py", "-ex",
                "help " + " ".join(words[:2]))
            self.assertNotIn("Undefined", told.stdout + told.stderr, command)
            self.assertEqual(told.returncode, 0, told.stderr)

    def test_links(self):
        for number, line in self.prose:
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                with self.at(number):
                    name, _, heading = target.partition("#")
                    path = (self.path.parent / name).resolve() if name else self.path
                    self.assertTrue(path.exists(), f"{target}: there is no such file")
                    if heading:
                        self.assertIn(heading, headings_of(path), f"{target}: there is no such heading")

    def test_names_of_files(self):
        for number, line in self.prose:
            for name in re.findall(r"`((?:%s)/[\w./*-]*)(?: [^`]*)?`" % "|".join(FOLDERS), line):
                with self.at(number):
                    kernel = name.startswith("bench/") and self.in_meson(name)
                    self.assertTrue(list(SOURCE.glob(name)) or kernel, f"there is no {name}")

    def test_names_of_functions(self):
        known = known_words()
        for number, line in self.prose:
            for quoted in re.findall(r"`([^`]*)`", line):
                for name in re.findall(r"\b(?:umbra|um|shadow|UMBRA|UM)_\w+(?![\w*.])", quoted):
                    with self.at(number):
                        found = name in known or name[-1] == "_" and any(
                            word.startswith(name) for word in known)
                        self.assertTrue(found, f"no header or tool has {name}")


@functools.lru_cache(maxsize=None)
def known_words():
    """Every word of the headers, of mpi/ and of the tools."""
    found = set()
    for folder in ("include", "mpi", "tools"):
        for path in (SOURCE / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                found.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return found


def headings_of(path):
    """As GitHub names them in links."""
    found = set()
    for _, line in blocks_of(path)[1]:
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower())
            found.add(words.strip().replace(" ", "-"))
    return found


class Figures(unittest.TestCase):
    def test_tables_are_those_of_the_committed_measurements(self):
        ran = subprocess.run([SOURCE / "tools/report", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "", ""))

    def test_the_readme_is_short(self):
        lines = (SOURCE / "README.md").read_text(encoding="utf-8").splitlines()
        self.assertLessEqual(len(lines), 200)

    def test_the_programs_of_the_readme_are_short(self):
        programs = [block for block in blocks_of(SOURCE / "README.md")[0] if block.language == "c"]
        self.assertEqual(len(programs), 4)
        for block in programs:
            self.assertLessEqual(len([line for line in block.lines if line]), 15, block.text)
            self.assertIn("int main(void)", block.text)


def main():
    for path in DOCUMENTS:
        name = "Document_" + re.sub(r"\W", "_", str(path.relative_to(SOURCE)))
        globals()[name] = type(name, (Document,), {"path": path})
    globals().pop("Document")
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
