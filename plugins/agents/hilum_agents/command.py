"""``hilum agents``: one sub-command, one function."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run ``hilum agents``; gives its exit code."""
    from hilum_commandline import Parser

    Parser("hilum agents", "Agents that are defined in files.").parse_args(argv)
    return 0
