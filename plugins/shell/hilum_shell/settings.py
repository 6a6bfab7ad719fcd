"""The settings of the shell."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("shell")
class ShellSettings:
    """How long commands may take, what happens to those that take longer, and how much of their
    output is kept.
    """

    timeout: float = setting(
        default=120.0,
        minimum=0.1,
        project="lower",
        help="Seconds a command is waited for when the model names no time.",
    )
    quiet: float = setting(
        default=60.0,
        minimum=0,
        project="user",
        help="Seconds without output after which such a command counts as late; 0 for never.",
    )
    when_late: Literal["background", "end"] = setting(
        default="background",
        help="What happens to such a command when it is late: it goes on, or is ended.",
    )
    max_timeout: float = setting(
        default=3600.0,
        minimum=0.1,
        project="lower",
        help="Most seconds a command may take, also one that was moved to the background.",
    )
    output_limit: int = setting(
        default=30_000,
        minimum=100,
        project="lower",
        help="Characters of a command's output that the model gets at once.",
    )
    services: int = setting(
        default=8,
        minimum=0,
        project="lower",
        help="Most commands in the background at once, per session.",
    )
    keep_services: bool = setting(
        default=False,
        project=False,
        help="Whether the command line stays until background commands end, and so keeps them.",
    )
    spool: int = setting(
        default=2_000_000,
        minimum=10_000,
        project="lower",
        help="Bytes of a background command's output that can be read again.",
    )
