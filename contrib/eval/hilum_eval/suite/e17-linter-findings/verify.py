"""Looks for the findings in the code, without a linter, and runs the branch that has no test."""

import ast
from pathlib import Path

from hilum_eval.checking import (
    Checks,
    Raised,
    compare_with_fixture,
    copy_with_originals,
    evaluate_python,
    run_unittests,
)

FIXTURE = Path(__file__).parent / "files"
PATH = "journey/route.py"


def imported_and_used(source: str) -> tuple[set[str], set[str]]:
    tree = ast.parse(source)
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return imported, used


checks = Checks()
source = Path(PATH).read_text("utf-8") if Path(PATH).is_file() else ""
try:
    imported, used = imported_and_used(source)
except SyntaxError:
    imported, used = {"nothing"}, set()
unused = sorted(imported - used)
checks.goal("unused import", not unused, f"imported and unused: {unused}")
root = copy_with_originals(FIXTURE, ["tests"])
lines = "{'A': {'B': 1, 'C': 9}, 'B': {'C': 2}, 'C': {}}"
missing, message, route, text = evaluate_python(
    "from journey.route import describe, find_route\n"
    "def message(*arguments):\n"
    "    try:\n        find_route(*arguments)\n"
    "    except LookupError as error:\n        return str(error)\n",
    [
        f"find_route({lines}, 'B', 'A')",
        f"message({lines}, 'B', 'A')",
        f"find_route({lines}, 'A', 'C')",
        "describe(['A', 'B', 'C'], 3)",
    ],
    root=root,
)
checks.goal("undefined name", missing == Raised("LookupError"), f"without a route: {missing}")
checks.goal("message", message == "there is no route from B to A", f"the message is {message!r}")
checks.guard("route", (route, text) == ([["A", "B", "C"], 3], "A to C, 3 min"), f"{route}, {text}")
silenced = [word for word in ("noqa", "ruff:", "type: ignore", "pragma") if word in source]
checks.guard("not silenced", not silenced, f"the linter is silenced by {silenced}")
ran, failed = run_unittests(root)
checks.guard("tests", ran == 2 and failed == 0, f"{failed} of {ran} tests fail")
others = [path for path in compare_with_fixture(FIXTURE, ignore=["tests/*"]) if path != PATH]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
