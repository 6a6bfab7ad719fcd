"""The settings of the terminal, in the table ``[terminal]``."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("terminal")
class TerminalSettings:
    """How conversations in the terminal look, and how hilum notifies the user."""

    background: Literal["auto", "dark", "light"] = setting(
        default="auto",
        project="user",
        help="Background of the terminal, for which colors are chosen; auto reads COLORFGBG.",
    )
    notify: Literal["bell", "desktop", "off"] = setting(
        default="bell",
        project="user",
        help=(
            "How hilum notifies you when a question waits or a long run ends while the terminal is"
            " in the background: bell, desktop notification (OSC 9) or not at all."
        ),
    )
    notify_after: float = setting(
        default=10.0,
        minimum=0,
        project="user",
        help="Minimum duration, in seconds, of a run whose end is worth a notification.",
    )
    turn_times_from: float = setting(
        default=1.0,
        minimum=0,
        project="user",
        help=(
            "Minimum duration, in seconds, of a model call whose duration and tokens are shown below"
            " its answer; 0 shows those of each call."
        ),
    )
    history: bool = setting(
        default=True,
        project="user",
        help="Whether prompts are kept, without their secrets, for later sessions.",
    )
