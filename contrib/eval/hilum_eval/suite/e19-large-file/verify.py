"""Checks that exactly one line of the file was changed, and loads the article."""

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
PATH = "catalog/articles.py"
LINE = 2507  # of the price of article 3417, counted from 1

checks = Checks()
root = copy_with_originals(FIXTURE, ["tests"])
article, count = evaluate_python(
    "from catalog.articles import ARTICLES, find", ["find(3417)", "len(ARTICLES)"], root=root
)
expected = {"id": 3417, "name": "striped jug", "price": 19.5, "stock": 12}
checks.goal("price", article == expected, f"article 3417 is {article}", weight=2)
before = (FIXTURE / PATH).read_bytes().splitlines(keepends=True)
after = Path(PATH).read_bytes().splitlines(keepends=True) if Path(PATH).is_file() else []
changed = [
    number for number, pair in enumerate(zip(before, after, strict=False), 1) if pair[0] != pair[1]
]
exact = len(before) == len(after) and changed == [LINE]
checks.goal("exact", exact, f"{len(after)} lines, different in lines {changed[:5]}")
line = after[LINE - 1] if len(after) >= LINE else b""
style = re.fullmatch(rb'        "price": 19\.50?,\n', line) or line == before[LINE - 1]
checks.guard("style", bool(style), f"the line of the price is {line!r}")
checks.guard("all articles", count == 830, f"there are {count} articles")
ran, failed = run_unittests(root)
checks.guard("tests", ran == 2 and failed == 0, f"{failed} of {ran} tests fail")
others = [path for path in compare_with_fixture(FIXTURE, ignore=["tests/*"]) if path != PATH]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
