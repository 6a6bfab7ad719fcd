"""The settings of the language servers."""

from __future__ import annotations

from hilum import section, setting

# Maximum of `lsp.timeout`: the gate of a rename, whose time limit is fixed, waits that long.
MAX_TIMEOUT = 80.0


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
        help=(
            "Maximum memory of a server and its child processes, in bytes (Linux). Raise it if"
            " hilum reports that a server of a large project needed more."
        ),
    )
    timeout: float = setting(
        default=20.0,
        minimum=0.1,
        maximum=MAX_TIMEOUT,
        project="lower",
        help=(
            "Seconds that a tool waits for a server that runs; a server that must be started first"
            " has 30 seconds more."
        ),
    )
