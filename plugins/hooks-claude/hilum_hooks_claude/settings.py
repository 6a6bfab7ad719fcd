"""The settings of the plugin.

A project cannot change settings that would let a hook do more, or that would let a call pass.
"""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("hooks_claude")
class HooksSettings:
    """Whether and how the hooks in the settings files of Claude Code run."""

    enabled: bool = setting(
        default=True,
        project=False,
        help="Whether hooks of .claude/settings.json run at all.",
    )
    timeout: float = setting(
        default=60.0,
        minimum=0.1,
        project="lower",
        help="Seconds that a hook may take if it does not say so itself.",
    )
    max_timeout: float = setting(
        default=600.0,
        minimum=0.1,
        project="lower",
        help="Maximum number of seconds that a hook may take, whatever it says itself.",
    )
    failing_guard: Literal["deny", "pass"] = setting(
        default="deny",
        project=False,
        help="What happens to a call if its PreToolUse hook fails: deny it, or let it pass.",
    )
    network: bool = setting(
        default=False,
        project=False,
        help="Whether hooks may use the network.",
    )
    unsandboxed: bool = setting(
        default=False,
        project=False,
        help="Whether hooks run even if this system has no sandbox for them.",
    )
