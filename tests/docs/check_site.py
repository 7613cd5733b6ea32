#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks the site: check_site.py ROOT

tools/site makes it without a complaint; each link of a page leads to a file, and to a place in it; no page
loads anything from elsewhere; each public function has its place in the reference. Exit status 77: Sphinx,
or libclang for Python, is not installed.
"""
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


class Page(html.parser.HTMLParser):
    """The places in a page, and what it names: (tag, address)."""

    def __init__(self, path):
        super().__init__()
        self.places, self.named = {"", "top"}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        self.places.update(value for name, value in attrs if name in ("id", "name"))
        self.named += [(tag, value) for name, value in attrs if value and name in ("href", "src", "srcset", "data")]


def wrong_of(path, pages):
    for tag, address in pages[path].named:
        if tag == "a" and re.match("[a-z]+:", address) or address.startswith("data:"):
            continue
        if ELSEWHERE.match(address):
            yield f"loads {address}"
            continue
        parts = urllib.parse.urlsplit(address)
        to = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
        if not to.is_file():
            yield f"{address}: no such file"
        elif to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].places:
            yield f"{address}: no such place"


def check(root, folder):
    """What is wrong."""
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    wrong = [f"{path.relative_to(folder)}: {what}" for path in pages for what in wrong_of(path, pages)]
    for path in folder.rglob("*.css"):
        loaded = re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]*)""", path.read_text())
        wrong += [f"{path.relative_to(folder)}: loads {address}" for address in loaded]
    sys.path.insert(0, str(root / "tests/headers"))
    from public_functions import public_functions  # pylint: disable=import-outside-toplevel
    places = set().union(*(page.places for path, page in pages.items() if path.parent.name == "reference"))
    wrong += [f"{name}: not in the reference" for name in sorted(public_functions(root / "include"))
              if name.replace("_", "-") not in places]
    print(f"{len(pages)} pages, {sum(len(page.named) for page in pages.values())} links")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if subprocess.run(["/usr/bin/python3", "-c", "import clang.cindex, matplotlib"], check=False).returncode:
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve() / "site"
        made = subprocess.run([root / "tools/site", folder], check=False,
                              env={**os.environ, "UMBRA_SKIP_SETUP": "1"})
        if made.returncode:
            return made.returncode
        wrong = check(root, folder)
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
