"""What a user may set under [memory]."""

from __future__ import annotations

from hilum import section, setting


@section("memory")
class MemorySettings:
    """Long conversations: how they are made to fit the model's window."""

    summary_timeout: float = setting(
        default=120.0, minimum=1, project="lower", help="Seconds that a summary may take."
    )
    summary_tokens: int = setting(
        default=2_000, minimum=200, project="lower", help="Most tokens of a summary."
    )
    thin_over: int = setting(
        default=4_000,
        minimum=1_000,
        project="lower",
        help="Characters over which old tool results are thinned.",
    )
    never_thin: list[str] = setting(
        factory=lambda: ["use_skill"], project="user", help="Tools whose results are never thinned."
    )
    recent_turns: int = setting(
        default=4, minimum=1, project="lower", help="Last turns whose results are not thinned."
    )
