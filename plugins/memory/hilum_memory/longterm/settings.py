"""The settings of long-term memory."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("longterm")
class LongTermSettings:
    """What is remembered across sessions. A project cannot set these."""

    enabled: bool = setting(default=True, project=False, help="Recall memories and write them.")
    write: Literal["auto", "off"] = setting(
        "auto",
        project=False,
        help=(
            "auto: after a run a model looks for what is worth keeping; off: only what the user"
            " asks to remember."
        ),
    )
    kinds: list[str] = setting(
        factory=lambda: ["main"],
        project=False,
        help="Kinds of sessions in which memories are written.",
    )
    budget: int = setting(
        default=1_000, minimum=0, project=False, help="Tokens that recalled memories may take."
    )
    most: int = setting(
        default=2_000,
        minimum=1,
        project=False,
        help="Memories kept for the user, and for a workspace.",
    )
    keep_days: float = setting(
        default=180.0,
        minimum=1,
        project=False,
        help=(
            "Days after which a memory that the user did not ask for, and that was not used since,"
            " is deleted."
        ),
    )
