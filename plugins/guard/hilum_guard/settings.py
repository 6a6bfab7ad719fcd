"""The settings of the guard.

A project's settings file cannot contain these settings, because they extend what an agent may do.
"""

from __future__ import annotations

from typing import Literal

from hilum import section, setting

from hilum_guard.foreign.files import AGENTS


@section("guard")
class GuardSettings:
    """The settings for the sandbox and for redaction."""

    sandbox: Literal["auto", "required", "off"] = setting(
        default="auto",
        project=False,
        help=(
            "Sandbox for child processes: auto uses what the system offers, required starts no"
            " process without the full sandbox, off disables it."
        ),
    )
    unsandboxed: Literal["ask", "run"] = setting(
        default="ask",
        project=False,
        help=(
            "With approve = auto and no sandbox to protect files, whether commands that are not"
            " known to be harmless need approval (ask) or run automatically (run)."
        ),
    )
    network: Literal["none", "full"] = setting(
        default="none",
        project=False,
        help="Network of sandboxed processes: only the session's loopback (none), or all (full).",
    )
    writable: list[str] = setting(
        factory=list,
        project=False,
        help="Folders outside the workspace that sandboxed processes may write to.",
    )
    readable: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Paths that sandboxed processes may read although they would be hidden by default. A"
            " relative path is relative to the workspace."
        ),
    )
    pass_environment: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Environment variables that processes get although they look like secrets; * matches"
            " any text."
        ),
    )
    denials_from: list[
        Literal["claude", "codex", "gemini", "opencode", "cursor", "copilot", "aider", "windsurf"]
    ] = setting(
        factory=lambda: list(AGENTS),
        project=False,
        help=(
            "Other agents whose deny and ask rules apply, from the files in the project and in the"
            " home folder."
        ),
    )
    redact_prompts: bool = setting(
        default=True,
        project=False,
        help=(
            "Replace secrets in prompts. If false, prompts are sent to the model and stored as"
            " they are written."
        ),
    )
    processes: int = setting(
        default=1024,
        minimum=16,
        project=False,
        help="Maximum number of processes and threads that a sandboxed command may have at once.",
    )
    spare_sandboxes: int = setting(
        default=8,
        minimum=0,
        project=False,
        help=(
            "Maximum number of sandboxes that are built ahead of time (with bubblewrap), so that"
            " commands start faster; 0 builds none. Each uses about 5 MB of memory. All spares"
            " together use at most one eighth of guard.processes."
        ),
    )
    file_size: int = setting(
        default=20_000,
        minimum=1,
        project=False,
        help="Maximum size, in megabytes, of a file written by a sandboxed command.",
    )
