"""Counts the renamed references, and checks that nothing else was changed."""

import re
from pathlib import Path

from hilum_eval.checking import (
    Checks,
    compare_with_fixture,
    copy_with_originals,
    evaluate_python,
    run_unittests,
)

FIXTURE = Path(__file__).parent / "files"
OLD = re.compile(r"\bfetch_rate\b")
NEW = re.compile(r"\bexchange_rate\b")
# References in each file; other occurrences of the old name stay.
REFERENCES = {
    "README.md": 3,
    "desk/__init__.py": 2,
    "desk/cache.py": 2,
    "desk/flights.py": 1,
    "desk/hotels.py": 2,
    "desk/money.py": 2,
    "desk/plugins.py": 1,
    "desk/rates.py": 3,
    "desk/report.py": 3,
    "desk/trains.py": 1,
    "docs/rates.md": 2,
    "pyproject.toml": 1,
    "tests/test_costs.py": 1,
    "tests/test_rates.py": 5,
}
KEPT_LINES = {
    "desk/rates.py": '    count("fetch_rate")',
    "desk/metrics.py": '    """Count an event, such as "fetch_rate"."""',
    "desk/report.py": 'COLUMNS = ("amount", "currency", "fetch_rate_date")',
    "tests/test_rates.py": '        before = COUNTERS.get("fetch_rate", 0)',
}
BEHAVIOUR = [
    "exchange_rate('EUR', 'USD')",
    "COUNTERS.get('fetch_rate')",
    "hasattr(desk.rates, 'fetch_rate')",
    "load_source() is exchange_rate",
    "desk.fetch_rates('EUR')",
]


def read(path: str) -> str:
    file = Path(path)
    return file.read_text("utf-8") if file.is_file() else ""


def sorted_lines(text: str) -> list[str]:
    # The order of imports may change with the names.
    return sorted(NEW.sub("fetch_rate", text).splitlines())


checks = Checks()
found = {path: min(len(NEW.findall(read(path))), count) for path, count in REFERENCES.items()}
total = sum(REFERENCES.values())
done = sum(found.values())
missing = [path for path, count in REFERENCES.items() if found[path] < count]
checks.goal("references", done / total, f"{done} of {total}; missing in {missing}", weight=8)
root = copy_with_originals(FIXTURE, [])
imports = (
    "import desk, desk.rates; from desk import exchange_rate; from desk.metrics import COUNTERS\n"
)
imports += "import os, sys; os.chdir(sys.path[0]); from desk.plugins import load_source"
behaviour = evaluate_python(imports, BEHAVIOUR, root=root)
ran, failed = run_unittests(root)
works = behaviour == [1.25, 1, False, True, {"USD": 1.25, "CHF": 0.95}]
checks.goal(
    "works",
    works and ran >= 7 and failed == 0,
    f"{failed} of {ran} tests fail; {behaviour}",
    weight=2,
)
lost = [path for path, line in KEPT_LINES.items() if line not in read(path).splitlines()]
checks.guard("kept names", not lost, f"a name that stays was renamed in {lost}")
history = (FIXTURE / "CHANGELOG.md").read_text("utf-8").splitlines()[2:]
checks.guard("changelog", "\n".join(history) in read("CHANGELOG.md"), "old entries were changed")
changed = compare_with_fixture(FIXTURE, ignore=["CHANGELOG.md"])
other = [
    path
    for path in changed
    if path not in REFERENCES
    or sorted_lines(read(path)) != sorted_lines((FIXTURE / path).read_text("utf-8"))
]
checks.guard("others", not other, f"more than the name was changed in {other}")
checks.report()
