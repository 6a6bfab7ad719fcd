"""The command ``hilum eval``: how good an agent is at a suite of cases."""

from __future__ import annotations

from hilum.command import Parser, check_text, say

from hilum_eval.case_reader import read_suite


def main(argv: list[str]) -> int:
    """Measure an agent, and return the exit code."""
    check_text(argv)
    parser = Parser("hilum eval", "Measure how good an agent is at a suite of cases.")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.parse_args(argv)
    for case in read_suite():
        say(f"{case.id}  {case.title}")
    return 0
