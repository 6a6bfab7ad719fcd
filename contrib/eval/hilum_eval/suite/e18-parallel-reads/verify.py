"""Compares the answer with the files, and checks that the three reads overlapped."""

import re
from itertools import pairwise
from pathlib import Path

from hilum_eval.checking import Call, Checks, compare_with_fixture, read_attempt

FIXTURE = Path(__file__).parent / "files"
EXPECTED = {
    "service_017.replicas": ("65", "66", "67"),
    "service_088.timeout": ("54", "90", "54"),
    "service_101.mode": ("manual", "auto", "auto"),
    "service_142.timeout": ("40", "40", "91"),
}
LINE = re.compile(r"(service_\d{3}\.\w+)[`*]*:[`*]*\s+(\w+),?\s+(\w+),?\s+(\w+)")
REGIONS = ("north.ini", "south.ini", "west.ini")


def are_parallel(calls: list[Call]) -> bool:
    """Return whether calls of one answer overlapped.

    On a busy machine, two of three short reads may end before the last one begins. Calls that run one
    after another never overlap.
    """
    if len({call.turn for call in calls}) != 1:
        return False
    ordered = sorted(calls, key=lambda call: call.start)
    return any(later.start < earlier.end for earlier, later in pairwise(ordered))


attempt = read_attempt()
found = {key: tuple(values) for key, *values in LINE.findall(attempt.answer)}
right = [key for key, values in EXPECTED.items() if found.get(key) == values]
named = set(re.findall(r"service_\d{3}\.\w+", attempt.answer))
checks = Checks()
checks.goal("differences", len(right) / len(EXPECTED), f"right are only {right}", weight=3)
checks.guard("precise", named <= set(EXPECTED), f"no differences: {sorted(named - set(EXPECTED))}")

done = [call for call in attempt.calls if not call.code]
# A command may read all three files at once, too.
together = any(all(name in call.text for name in REGIONS) for call in done)
reads = [[call for call in done if name in call.text] for name in REGIONS]
if not together and all(reads):
    together = are_parallel([calls[0] for calls in reads])
checks.goal("at once", together, "the three files were not read at the same time")
changed = list(compare_with_fixture(FIXTURE))
checks.guard("unchanged", not changed, f"files changed: {changed}")
checks.report()
