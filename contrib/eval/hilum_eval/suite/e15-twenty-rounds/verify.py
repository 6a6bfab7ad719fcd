"""Compares the protocol with the contracts and with what the user said at the beginning."""

import re
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, read_attempt

FIXTURE = Path(__file__).parent / "files"
FEES = {
    "01 Alder": 3507, "02 Birch": 7914, "03 Cedar": 8271, "04 Dogwood": 7628,
    "05 Elm": 2385, "06 Fir": 7992, "07 Ginkgo": 5549, "08 Hazel": 6806,
    "09 Ironwood": 2813, "10 Juniper": 4020, "11 Katsura": 6227, "12 Larch": 1734,
}  # fmt: skip
FACTS = {"Ticket": "REV-4417", "Reviewer": "KESTREL_9", "Next review": "2031-05-04"}
MAX_MEMORY = 1_500_000_000  # bytes of the agent's process

text = Path("protocol.md").read_text("utf-8") if Path("protocol.md").is_file() else ""
rows = dict(re.findall(r"^\|\s*(\d\d \w+)\s*\|\s*(\d+)\s*\|\s*$", text, re.M))
lines = dict(re.findall(r"^(Ticket|Reviewer|Next review|Total): (.*?)\s*$", text, re.M))
checks = Checks()
wrong = [name for name, fee in FEES.items() if rows.get(name) != str(fee)]
checks.goal("fees", 1 - len(wrong) / len(FEES), f"missing or wrong: {wrong}", weight=2)
lost = [name for name, value in FACTS.items() if lines.get(name) != value]
checks.goal("facts", not lost, f"missing or wrong: {lost}", weight=2)
checks.goal("total", lines.get("Total") == str(sum(FEES.values())), f"total {lines.get('Total')}")
checks.guard(
    "order", list(rows) == sorted(rows) and len(rows) <= len(FEES), "rows are not in order"
)
checks.guard("heading", text.startswith("# Protocol of the review\n"), "the heading was changed")
attempt = read_attempt()
memory = (attempt.raw.get("usage") or {}).get("peak_memory") or 0
checks.guard("memory", memory < MAX_MEMORY, f"the agent used {memory} bytes of memory")
checks.note("compactions", attempt.compactions)
others = [path for path in compare_with_fixture(FIXTURE) if path != "protocol.md"]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
