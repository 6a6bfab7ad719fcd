"""The settings of compaction."""

from __future__ import annotations

from hilum import section, setting


@section("memory")
class MemorySettings:
    """How to compact long conversations so that they fit the model's context window."""

    summary_timeout: float = setting(
        default=120.0,
        minimum=1,
        project="lower",
        help="Time limit for a summary, in seconds.",
    )
    summary_tokens: int = setting(
        default=2_000,
        minimum=200,
        project="lower",
        help="Maximum number of tokens in a summary.",
    )
    thin_over: int = setting(
        default=4_000,
        minimum=1_000,
        project="lower",
        help="Length, in characters, above which old tool results are shortened.",
    )
    never_thin: list[str] = setting(
        factory=lambda: ["use_skill"],
        project="user",
        help="Tools whose results are never shortened.",
    )
    recent_turns: int = setting(
        default=4,
        minimum=1,
        project="lower",
        help="Number of recent turns whose results are not shortened.",
    )
