"""The settings of the shell."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("shell")
class ShellSettings:
    """Limits on the duration and output of commands, and the handling of slow commands."""

    timeout: float = setting(
        default=120.0,
        minimum=0.1,
        project="lower",
        help="Seconds that hilum waits for a command if the model sets no timeout.",
    )
    quiet: float = setting(
        default=60.0,
        minimum=0,
        project="user",
        help=(
            "Seconds without output after which a command without a timeout counts as slow; 0"
            " for never."
        ),
    )
    when_late: Literal["background", "end"] = setting(
        default="background",
        help="What happens to a slow command: it continues as a service or is ended.",
    )
    max_timeout: float = setting(
        default=3600.0,
        minimum=0.1,
        project="lower",
        help="Maximum duration of a command, in seconds, even if it was moved to the background.",
    )
    output_limit: int = setting(
        default=30_000,
        minimum=100,
        project="lower",
        help="Maximum number of characters of a command's output that the model reads at once.",
    )
    services: int = setting(
        default=8,
        minimum=0,
        project="lower",
        help="Maximum number of background commands per session.",
    )
    keep_services: bool = setting(
        default=False,
        project=False,
        help="Whether `hilum run` waits for background commands to end, so that they keep running.",
    )
    spool: int = setting(
        default=2_000_000,
        minimum=10_000,
        project="lower",
        help="Maximum number of bytes kept of a background command's output.",
    )
