"""Calls the senders, and compares the other functions with the originals."""

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
PATH = "notifier/senders.py"
IMPORTS = """
import inspect
from notifier import senders
from notifier.transport import Connection
def sent(*args, **kwargs):
    Connection.sent.clear()
    senders.send_mail(*args, **kwargs)
    return [list(each) for each in Connection.sent]
def parameter():
    timeout = inspect.signature(senders.send_mail).parameters["timeout"]
    return [timeout.kind.name, timeout.default]
"""
MAIL = "'a@example.org', 'Hi', 'there'"


def other_functions(path: Path) -> dict[str, str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except SyntaxError:
        return {}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.dump(node) for node in functions if node.name != "send_mail"}


checks = Checks()
root = copy_with_originals(FIXTURE, ["tests", "notifier/transport.py"])
parameter, default, given, positional, negative, zero, address = evaluate_python(
    IMPORTS,
    [
        "parameter()",
        f"sent({MAIL})",
        f"sent({MAIL}, timeout=2.5)",
        f"sent({MAIL}, 5)",
        f"sent({MAIL}, timeout=-1)",
        f"sent({MAIL}, timeout=0)",
        "sent('nobody', 'a', 'b')",
    ],
    root=root,
)
text = "Hi\n\nthere"
checks.goal("keyword only", parameter == ["KEYWORD_ONLY", 10], f"timeout is {parameter}")
checks.goal("default", default == [["mail", 10, "a@example.org", text]], str(default))
checks.goal("given", given == [["mail", 2.5, "a@example.org", text]], str(given))
checks.goal("not positional", positional == Raised("TypeError"), str(positional))
checks.goal("negative", negative == Raised("ValueError"), str(negative))
checks.goal("zero", zero == [["mail", 0, "a@example.org", text]], str(zero))
checks.guard("addresses", address == Raised("ValueError"), str(address))
originals = other_functions(FIXTURE / PATH)
now = other_functions(Path(PATH))
kept = all(now.get(name) == code for name, code in originals.items())
checks.guard("other senders", kept, "other functions of senders.py were changed")
ran, failed = run_unittests(root)
checks.guard("tests", ran == 4 and failed == 0, f"{failed} of {ran} tests fail")
others = [path for path in compare_with_fixture(FIXTURE, ignore=["tests/*"]) if path != PATH]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
