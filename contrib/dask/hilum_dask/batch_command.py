"""The command ``hilum batch``: many tasks, each in its own process and workspace."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from hilum.command import check_text

# Each sub-command loads only what it needs.
_SUB_COMMANDS = {
    "status": "status_command",
    "cancel": "cancel_command",
    "trace": "trace_command",
    "worker": "worker_command",
}


def main(argv: list[str]) -> int:
    """Carry out many tasks: hilum batch tasks.jsonl.

    Returns:
        The exit code.
    """
    check_text(argv)
    first = argv[0] if argv else ""
    module = import_module(f"hilum_dask.{_SUB_COMMANDS.get(first, 'run_command')}")
    arguments = argv[1:] if first in _SUB_COMMANDS else argv
    return cast("int", module.main(arguments))
