"""The settings of the language servers."""

from __future__ import annotations

from hilum import section, setting


@section("lsp")
class LspSettings:
    """Which language servers may run, for how long, and how much memory they may use."""

    enabled: bool = setting(
        default=True, project="lower", help="Start the language servers that are installed."
    )
    off: list[str] = setting(factory=list, help="Names of language servers that never start.")
    idle: float = setting(
        default=600.0,
        minimum=1,
        project="lower",
        help="Seconds after which a server that nobody used ends.",
    )
    memory: int = setting(
        default=1_500_000_000,
        minimum=50_000_000,
        project="lower",
        help="Maximum memory of a server and its child processes, in bytes.",
    )
    timeout: float = setting(
        default=20.0,
        minimum=0.1,
        project="lower",
        help="Seconds that a tool waits for an answer of a server.",
    )
