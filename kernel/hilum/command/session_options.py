"""The options for settings and plugins, which all commands that open sessions have."""

from __future__ import annotations

from argparse import ArgumentParser

from hilum.command.parser import Names


def add_session_options(parser: ArgumentParser, *, only: bool = False) -> None:
    """Add the options ``--set``, ``--plugin`` and ``--no-plugin``, which may be repeated.

    Args:
        parser: The parser of the command.
        only: Whether to also add ``--plugins``, with which the user names all plugins to load. Its
            value is ``None`` unless the option is used.
    """
    add = parser.add_argument
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set any setting; may be repeated",
    )
    if only:
        add(
            "--plugins",
            action=Names,
            default=None,
            metavar="A,B",
            help="load these plugins only; may be repeated",
        )
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="also load a plugin from a file; may be repeated",
    )
    add(
        "--no-plugin",
        action=Names,
        default=[],
        metavar="A,B",
        help="do not load these plugins; may be repeated",
    )
