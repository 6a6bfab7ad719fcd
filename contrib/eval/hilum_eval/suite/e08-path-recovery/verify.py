"""Runs the formats of the page, and checks that the similar files stayed as they were."""

from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, read_attempt
from hilum_eval.checking.javascript import evaluate_javascript

FIXTURE = Path(__file__).parent / "files"
PATH = "src/helpers/clock-format.js"

checks = Checks()
times, span, page = evaluate_javascript(
    Path(),
    [
        "[0, 9, 485, 600, 1439].map(clock.formatTime)",
        "clock.formatSpan(480, 1050)",
        "pages.hours([{name: 'Mo', from: 485, to: 720}])",
    ],
    clock=PATH,
    pages="src/pages/hours.js",
)
checks.goal("times", times == ["00:00", "00:09", "08:05", "10:00", "23:59"], str(times))
checks.goal("span", span == "08:00–17:30", str(span))
checks.goal("page", page == "Mo 08:05–12:00", str(page))
changed = compare_with_fixture(FIXTURE)
invented = [path for path, change in changed.items() if change == "added"]
invented = [path for path in invented if ".test." not in path and not path.startswith("test/")]
checks.guard("nothing invented", not invented, f"new files: {invented}")
others = [path for path, change in changed.items() if change != "added" and path != PATH]
checks.guard("others", not others, f"other files changed: {others}")
answer = read_attempt().answer
checks.guard("told", "clock-format" in answer, "the answer does not name the file that was changed")
checks.report()
