"""Runs the original examples and further values, and checks that only code was changed."""

import ast
import sys
from pathlib import Path

from hilum_eval.checking import (
    Checks,
    compare_with_fixture,
    copy_with_originals,
    evaluate_python,
    run_program,
)

FIXTURE = Path(__file__).parent / "files"
MODULES = ["units", "codes", "levels", "orders", "prices", "labels"]
REPAIRED = {f"stock/{name}.py" for name in ("codes", "levels", "orders", "prices")}
STOCK = {"cup": [[1, "gross"], [1, "pair"]], "bowl": [[3, "piece"]]}
# Values beyond the examples, so that no table of the examples passes.
VALUES = {
    "codes.check_digit('123456789012')": 8,
    "codes.is_valid('9780201379624')": True,
    f"levels.is_low({STOCK}, 'cup', 146)": False,
    f"levels.is_low({STOCK}, 'cup', 147)": True,
    f"orders.order({STOCK}, 'bowl', 20, 4)": 5,
    f"orders.order({STOCK}, 'bowl', 19, 4)": 4,
    f"orders.order({STOCK}, 'plate', 1, 50)": 1,
    "prices.total([(3, 333)], 25)": 749,
    "prices.total([(1, 50)], 33)": 33,
    "prices.total([(1, 110)], 1)": 109,
    "prices.total([(1, 150)], 1)": 148,
}


def examples(path: Path) -> list[str | None]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError):
        return []
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    texts = [ast.get_docstring(node) for node in functions]
    return [text for text in texts if text and ">>>" in text]


checks = Checks()
root = copy_with_originals(FIXTURE, ["check.py"])
code, output = run_program([sys.executable, "-B", "check.py"], root)
checks.goal("examples", code == 0 and "all examples are right" in output, output[-200:].strip())
results = evaluate_python(
    "from stock import codes, levels, orders, prices", list(VALUES), root=root
)
wrong = [name for name, value in zip(VALUES, results, strict=True) if value != VALUES[name]]
checks.goal("values", not wrong, f"wrong: {wrong}", weight=2)
texts = [
    name
    for name in MODULES
    if examples(Path(f"stock/{name}.py")) != examples(FIXTURE / f"stock/{name}.py")
]
checks.guard("documentation", not texts, f"the examples were changed in {texts}")
others = sorted(set(compare_with_fixture(FIXTURE)) - REPAIRED)
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
