"""The settings of long-term memory."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("longterm")
class LongTermSettings:
    """Memory across sessions. A project cannot change these settings."""

    enabled: bool = setting(default=True, project=False, help="Recall and write memories.")
    write: Literal["auto", "off"] = setting(
        "auto",
        project=False,
        help=(
            "auto: after a run, a model chooses what is worth keeping; off: only what the user"
            " asks to remember."
        ),
    )
    kinds: list[str] = setting(
        factory=lambda: ["main"],
        project=False,
        help="Kinds of sessions in which memories are written.",
    )
    budget: int = setting(
        default=1_000,
        minimum=0,
        project=False,
        help="Maximum number of tokens for recalled memories.",
    )
    most: int = setting(
        default=2_000,
        minimum=1,
        project=False,
        help="Maximum number of memories for the user and for each workspace.",
    )
    keep_days: float = setting(
        default=180.0,
        minimum=1,
        project=False,
        help=(
            "Days after which a memory is deleted if the user did not ask for it and it has not"
            " been used since."
        ),
    )
