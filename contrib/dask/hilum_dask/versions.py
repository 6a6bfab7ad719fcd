"""Compares the versions of hilum's packages on the machines of a cluster."""

from __future__ import annotations

import sys
from importlib.metadata import distributions


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of hilum's packages on this machine, by name."""
    found = {"python": "{}.{}".format(*sys.version_info[:2])}
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name == "hilum" or name.startswith("hilum-"):
            found.setdefault(name, distribution.version)
    return dict(sorted(found.items()))


def describe_difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """Return how the versions of a worker differ; empty if they do not."""
    found = []
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            here = ours.get(name, "none")
            there = theirs.get(name, "none")
            found.append(f"{name} {there} there, {here} here")
    return "; ".join(found)
