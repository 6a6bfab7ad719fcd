"""Calls the functions of all modules, and checks that only the one at the cursor was changed."""

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
PATH = "survey/durations.py"


def other_functions(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError):
        return []
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [ast.dump(node) for node in functions if node.name != "mean"]


checks = Checks()
root = copy_with_originals(FIXTURE, ["tests"])
empty, kind, values, ages, scores = evaluate_python(
    "from survey import ages, durations, scores",
    [
        "durations.mean([])",
        "type(durations.mean(())).__name__",
        "[durations.mean([2, 4]), durations.mean([0]), durations.mean([-3, -1])]",
        "ages.mean([])",
        "scores.mean([])",
    ],
    root=root,
)
checks.goal(
    "empty", empty == 0.0 and not isinstance(empty, Raised), f"mean([]) is {empty}", weight=2
)
checks.goal("type", kind == "float", f"mean(()) is of type {kind}")
checks.guard("values", values == [3.0, 0.0, -2.0], f"other means are {values}")
kept = ages == Raised("ZeroDivisionError") and scores == Raised("ZeroDivisionError")
checks.guard("other modules", kept, "mean of another module was changed")
same = other_functions(Path(PATH)) == other_functions(FIXTURE / PATH)
checks.guard("other functions", same, f"other functions of {PATH} were changed")
ran, failed = run_unittests(root)
checks.guard("tests", ran == 2 and failed == 0, f"{failed} of {ran} tests fail")
others = [path for path in compare_with_fixture(FIXTURE, ignore=["tests/*"]) if path != PATH]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
