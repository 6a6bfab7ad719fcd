"""Renders the application, and checks that lines were only added."""

import difflib
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture
from hilum_eval.checking.javascript import evaluate_javascript, find_imports

FIXTURE = Path(__file__).parent / "files"
PATH = Path("src/App.jsx")
MAX_ADDED_LINES = 4

EXPRESSION = """render(React.createElement(m.default, {tasks: [
    {title: 'b', priority: 2}, {title: 'a', priority: 1}]}))"""
EXPECTED = [
    ("h1", "Tasks"),
    ("div", "Sorted by priority"),
    ("ul", "ab"),
    ("footer", "2 tasks"),
]

checks = Checks()
imports = {}
if PATH.is_file():
    imports = find_imports(PATH)
names = [name for source, names in imports.items() if "/Toolbar" in source for name in names]
checks.goal("import", len(names) == 1 and names[0].startswith("default as "), f"imports {names}")
[tree] = evaluate_javascript(Path(), [EXPRESSION], m=PATH.as_posix())
shown = []
if isinstance(tree, list) and len(tree) == 1:
    shown = [(child["tag"], child["text"]) for child in tree[0]["children"]]
checks.goal("rendered", shown == EXPECTED, f"shows {shown or tree}", weight=2)
before = (FIXTURE / PATH).read_text("utf-8").splitlines(keepends=True)
after = PATH.read_text("utf-8").splitlines(keepends=True) if PATH.is_file() else []
difference = [line[:1] for line in difflib.ndiff(before, after)]
checks.guard("removed", "-" not in difference, "lines of App.jsx were changed or removed")
added = difference.count("+")
checks.guard("added", added <= MAX_ADDED_LINES, f"{added} lines were added to App.jsx")
others = set(compare_with_fixture(FIXTURE)) - {PATH.as_posix()}
checks.guard("others", not others, f"other files changed: {sorted(others)}")
checks.report()
