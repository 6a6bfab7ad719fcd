"""Compares the messages, and counts the tries that the edit took."""

from pathlib import Path

from hilum_eval.checking import (
    Checks,
    compare_with_fixture,
    copy_with_originals,
    evaluate_python,
    read_attempt,
    run_unittests,
)

FIXTURE = Path(__file__).parent / "files"
PATH = "tickets/messages.py"
LATE = "We’re sorry – “Faust” has begun. Tickets are still available at the door."
OTHERS = [
    "We’re sorry – “Faust” is sold out.",
    "We’re sorry – you can’t order more than 8 tickets for “Faust”.",
]
MAX_FAILED_EDITS = 1

checks = Checks()
root = copy_with_originals(FIXTURE, ["tests"])
late, *others = evaluate_python(
    "from tickets import messages, orders",
    [
        "messages.too_late('Faust')",
        "messages.sold_out('Faust')",
        "orders.check('Faust', 9, 30)",
    ],
    root=root,
)
checks.goal("message", late == LATE, f"the message is {late!r}")
checks.guard("other messages", others == OTHERS, f"the other messages are {others}")
before = (FIXTURE / PATH).read_text("utf-8")
expected = before.replace(
    "You can’t order tickets any more.", "Tickets are still available at the door."
)
now = Path(PATH).read_text("utf-8") if Path(PATH).is_file() else ""
checks.guard("only the message", now in (expected, before), "more than the message was changed")
edits = [call for call in read_attempt().calls if call.path.endswith("messages.py")]
failed = [call for call in edits if call.code and any("old" in name for name in call.arguments)]
tries = len(failed) <= MAX_FAILED_EDITS
checks.guard("second try", tries, f"{len(failed)} edits of {PATH} failed before one succeeded")
ran, broken = run_unittests(root)
checks.guard("tests", ran == 2 and broken == 0, f"{broken} of {ran} tests fail")
other_files = [path for path in compare_with_fixture(FIXTURE, ignore=["tests/*"]) if path != PATH]
checks.guard("others", not other_files, f"other files changed: {other_files}")
checks.report()
