# SPDX-License-Identifier: BSL-1.0
"""docs/papers.md: heat divided between processors and a device, from docs/device.json, whose runs are
what examples/heat/heat_device.c printed on machines that have one."""
import json
import pathlib

from .tables import table, times

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs/device.json"
WAYS = ("processors", "device", "both")


def device(_picked):
    def line(run):
        steps = run["ms"]
        fastest = times(steps["processors"] / min(steps.values()))
        return (run["device"], run["processors"], f"{run['nodes']}^3", f"{run['steps']:,}",
                *(f"{steps[way]:.3g} ms" if way in steps else "not measured" for way in WAYS), fastest)

    head = ("device", "processors", "nodes", "steps", "a step: processors", "the device", "both",
            "processors over the fastest")
    return table(head, map(line, json.loads(FILE.read_text(encoding="utf-8"))))
