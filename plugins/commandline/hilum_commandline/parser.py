"""argparse with errors that say what to do."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from hilum import UsageError
from hilum.errors import E_BAD_ARGS


class Names(argparse.Action):
    """Collects names that are separated by commas; the option may be repeated."""

    def __call__(
        self,
        parser: object,
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        """Add the names of one use of the option."""
        names = [name.strip() for name in str(values).split(",")]
        known = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*known, *(name for name in names if name)])


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UsageError``.

    Args:
        prog: What the user types: ``hilum undo``.
        description: What it does; lines stay as they are written.
        epilog: What follows the options.
    """

    def __init__(
        self, prog: str, description: str = "", epilog: str = "", **more: str | None
    ) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog,
            None,
            description,
            epilog,
            formatter_class=layout,
            allow_abbrev=False,
            **more,  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        """Raise, with near names where an option is not known."""
        from difflib import get_close_matches  # 2 ms, only where something is wrong

        near = []
        unknown = re.search(r"unrecognized arguments: (-\S+)", message)
        if unknown:
            known = [option for action in self._actions for option in action.option_strings]
            near = get_close_matches(unknown[1].partition("=")[0], known, n=2)
        if near:
            hint = f"Did you mean {' or '.join(near)}?"
        else:
            hint = f"{self.prog} --help lists what it takes."
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", code=E_BAD_ARGS, hint=hint)
