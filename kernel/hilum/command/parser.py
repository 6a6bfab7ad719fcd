"""An argparse parser whose errors explain what to do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from hilum.errors import E_BAD_ARGS, UsageError


def insert_list(argv: Sequence[str]) -> list[str]:
    """Return the arguments of a command, with ``list`` added if they contain no sub-command.

    Args:
        argv: The arguments.
    """
    is_option = not argv or argv[0].startswith("-")
    if is_option and argv[:1] not in (["-h"], ["--help"]):
        return ["list", *argv]
    return [*argv]


class Names(argparse.Action):
    """An option that collects comma-separated names and may be repeated."""

    def __call__(
        self,
        parser: object,
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        """Add the names from one use of the option."""
        names = [name.strip() for name in str(values).split(",")]
        known = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*known, *(name for name in names if name)])


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UsageError``.

    Args:
        prog: The command as the user types it: ``hilum undo``.
        description: The description; its line breaks are kept.
        epilog: The text below the options.
        foreign: Whether the error about another coding agent's option names hilum's equivalent.
    """

    def __init__(
        self,
        prog: str,
        description: str = "",
        epilog: str = "",
        *,
        foreign: bool = False,
        **more: str | None,
    ) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog,
            None,
            description,
            epilog,
            formatter_class=layout,
            # An abbreviated option in a script could become ambiguous when hilum adds an option.
            allow_abbrev=False,
            **more,  # type: ignore[arg-type]
        )
        self._foreign = foreign

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError``, with similar names if an option is unknown."""
        from difflib import get_close_matches  # takes 2 ms, needed only for an error

        if self._foreign and "unrecognized arguments" in message:
            self._explain_foreign(message.partition("unrecognized arguments: ")[2].split())
        near = []
        unknown = re.search(r"unrecognized arguments: (-\S+)", message)
        if unknown:
            known = [option for action in self._actions for option in action.option_strings]
            near = get_close_matches(unknown[1].partition("=")[0], known, n=2)
        if near:
            hint = f"Did you mean {' or '.join(near)}?"
        else:
            hint = f"{self.prog} --help lists its options."
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", code=E_BAD_ARGS, hint=hint)

    def _explain_foreign(self, unknown: list[str]) -> None:
        """Raise ``UsageError`` if an unknown option belongs to another coding agent."""
        from hilum.command.foreign import find_foreign_option  # needed only for an error

        known = [option for action in self._actions for option in action.option_strings]
        option, advice = find_foreign_option(unknown, known)
        if option:
            message = f"{self.prog} has no option {option}."
            raise UsageError(message, code=E_BAD_ARGS, hint=advice)
