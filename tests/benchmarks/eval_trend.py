"""How good hilum is with simulated models: solved cases, wasted calls, tokens and cost per solved case.

The figures are appended to a file, so that every change of hilum moves a visible figure, and are shown
beside the last ones.

    .venv/bin/python tests/benchmarks/eval_trend.py                              measure and compare
    .venv/bin/python tests/benchmarks/eval_trend.py --record docs/eval-trend.jsonl    and record
    .venv/bin/python tests/benchmarks/eval_trend.py --agent mini-swe-agent       another agent
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case_reader import read_suite
from hilum_eval.driver import Progress, measure
from hilum_eval.jobs import make_jobs
from hilum_eval.measurement import open_results
from hilum_eval.simulation.profile import BUILTIN

HISTORY = Path(__file__).parents[2] / "docs" / "eval-trend.jsonl"
COLUMNS = (
    ("solved", "solved", "{:.0%}"),
    ("turns", "turns", "{:.1f}"),
    ("failed", "failed calls", "{:.2f}"),
    ("wasted", "wasted calls", "{:.2f}"),
    ("tokens", "tokens per solved case", "{:,.0f}"),
    ("dollars", "dollars per solved case", "{:.3f}"),
)


def compute_row(attempts: Sequence[Attempt], agent: str, profile: str) -> dict[str, Any]:
    """Return the figures of an agent with a profile."""
    verified = [each for each in attempts if each.state == "verified"]
    count = max(len(verified), 1)
    solved = sum(each.passed for each in verified)
    usages = [each.usage for each in verified]
    tokens = sum(usage.input_tokens + usage.output_tokens for usage in usages)
    dollars = [usage.dollars for usage in usages if usage.dollars is not None]
    is_known = len(dollars) == len(usages) and solved > 0
    return {
        "agent": agent,
        "profile": profile,
        "attempts": len(verified),
        "broken": len(attempts) - len(verified),
        "solved": round(solved / count, 4),
        "turns": round(sum(usage.turns for usage in usages) / count, 2),
        "failed": round(sum(usage.failed_calls for usage in usages) / count, 3),
        "wasted": round(sum(usage.wasted_calls for usage in usages) / count, 3),
        "tokens": round(tokens / solved) if solved else None,
        "dollars": round(sum(dollars) / solved, 4) if is_known else None,
    }


def read_history(path: Path) -> list[dict[str, Any]]:
    """Return the recorded rows, oldest first."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def format_table(rows: Sequence[dict[str, Any]], earlier: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table; in brackets, the last recorded figures if they differ."""
    lines = ["| agent | model | attempts | " + " | ".join(name for _, name, _ in COLUMNS) + " |"]
    lines.append("|---" * (3 + len(COLUMNS)) + "|")
    for row in rows:
        same = [
            each
            for each in earlier
            if (each["agent"], each["profile"]) == (row["agent"], row["profile"])
        ]
        cells = [row["agent"], row["profile"], str(row["attempts"])]
        for key, _, form in COLUMNS:
            cell = _format(row[key], form)
            before = _format(same[-1].get(key), form) if same else cell
            cells.append(cell if cell == before else f"{cell} ({before})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _format(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def find_commit() -> str:
    """Return the short id of the commit that is measured."""
    root = Path(__file__).parents[2]
    argv = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure, print the table, and record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--agent", default="hilum")
    parser.add_argument("--profile", action="append", choices=BUILTIN)
    parser.add_argument(
        "--record", metavar="FILE", help="the file to which the figures are appended"
    )
    parser.add_argument("--out", help="the folder of the results, to continue an earlier run")
    parser.add_argument("--note", default="", help="a remark that is recorded")
    options = parser.parse_args()
    profiles = options.profile or list(BUILTIN)
    arms = [Arm(name=name, profile=name, agent=options.agent) for name in profiles]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.out or temporary)
        with open_results(folder, resume=True) as results:
            jobs = make_jobs(read_suite(), arms, options.repeats)
            outcome = measure(jobs, results, at_once=options.jobs, progress=Progress())
    if outcome.signal:
        raise SystemExit("stopped; with --out, the same command continues")
    rows = []
    for arm in arms:
        attempts = [each for each in outcome.attempts if each.arm == arm.name]
        rows.append(compute_row(attempts, options.agent, arm.profile))
    path = Path(options.record) if options.record else HISTORY
    print(format_table(rows, read_history(path)))
    if options.record:
        today = datetime.date.today().isoformat()
        head = {"date": today, "commit": find_commit(), "note": options.note}
        with path.open("a") as file:
            file.writelines(json.dumps(head | row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
