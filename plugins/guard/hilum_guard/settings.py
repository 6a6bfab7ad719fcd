"""The settings of the sandbox.

None of them may stand in a project's file: they widen what an agent may do.
"""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("guard")
class GuardSettings:
    """What child processes may do."""

    sandbox: Literal["auto", "required", "off"] = setting(
        default="auto",
        project=False,
        help=(
            "Sandbox for child processes: what the system offers, or no process without all of it,"
            " or none."
        ),
    )
    unsandboxed: Literal["ask", "run"] = setting(
        default="ask",
        project=False,
        help=(
            "With approve = auto, commands that are not known to be harmless where no sandbox holds"
            " files: ask, or run."
        ),
    )
    network: Literal["none", "full"] = setting(
        default="none",
        project=False,
        help="Network of sandboxed processes: the session's loopback only, or all.",
    )
    writable: list[str] = setting(
        factory=list,
        project=False,
        help="Folders beside the workspace that sandboxed processes may write to.",
    )
    readable: list[str] = setting(
        factory=list,
        project=False,
        help="Paths that would be hidden from sandboxed processes and are not.",
    )
    pass_environment: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Environment variables that processes get though they look like secrets; * stands for"
            " any text."
        ),
    )
    redact_prompts: bool = setting(
        default=True,
        project=False,
        help=(
            "Replace secrets in prompts. Without it, prompts are sent to the model and stored as"
            " they are written."
        ),
    )
    processes: int = setting(
        default=1024,
        minimum=16,
        project=False,
        help="Processes and threads a sandboxed command may have at once.",
    )
    file_size: int = setting(
        default=20_000,
        minimum=1,
        project=False,
        help="Megabytes that a file written by a sandboxed command may have.",
    )
