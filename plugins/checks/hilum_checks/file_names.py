"""Judge the names of the files that a call creates."""

from __future__ import annotations

import os

from hilum_guard import UNKNOWN

from hilum_checks.call_facts import CallFacts
from hilum_checks.expressions import count_matches
from hilum_checks.model import Names, Paths
from hilum_checks.path_matcher import Fit
from hilum_checks.vocabulary import CREATES


def match_names(constraint: Names, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call creates a file with a forbidden name, and what it does.

    A convention for names protects nothing, so what a program may create on its own needs no
    approval.
    """
    paths = Paths(constraint.patterns, CREATES, constraint.unless)
    for access in facts.accesses:
        if access.kind not in ("write", "link") or access.deep == "all" or UNKNOWN in access.path:
            continue
        name = os.path.basename(access.path.rstrip("/"))
        if any(char in name for char in "*?[{") or facts.matcher.match(paths, access) != "yes":
            continue
        count = count_matches(constraint.expression, name)
        if count is None or bool(count) != constraint.wanted:
            return "yes", f"it creates {access.path[:200]}"
    return "", ""
