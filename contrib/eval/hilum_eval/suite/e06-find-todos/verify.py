"""Compares the places in the answer with those of the comments."""

import re
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, read_attempt

FIXTURE = Path(__file__).parent / "files"
EXPECTED = {
    ("app/posts.py", 5),
    ("app/posts.py", 12),
    ("app/views.py", 10),
    ("tests/test_posts.py", 9),
    ("web/list.js", 4),
    ("web/menu.js", 3),
    ("web/menu.js", 4),
}
PLACE = re.compile(r"((?:[\w.-]+/)*[\w-]+\.(?:py|js|md))`?\s*(?::|#L|,? line )\s*(\d+)")

answer = read_attempt().answer
places = set()
for path, line in PLACE.findall(answer.replace("\\", "/")):
    places.add((path.removeprefix("./"), int(line)))
right = places & EXPECTED
wrong = sorted(places - EXPECTED)
missing = sorted(EXPECTED - places)
checks = Checks()
checks.goal("found", len(right) / len(EXPECTED), f"missing {missing}")
checks.guard("precise", not wrong, f"no TODO comments: {wrong}")
changed = list(compare_with_fixture(FIXTURE))
checks.guard("unchanged", not changed, f"files changed: {changed}")
checks.report()
