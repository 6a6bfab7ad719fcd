"""The settings for agent definitions: table ``[agents]``."""

from __future__ import annotations

from hilum import section, setting


@section("agents")
class AgentsSettings:
    """Where agents are defined, and whether prompts can call them by name."""

    folders: bool = setting(
        default=True,
        project="lower",
        help=(
            "Also read agents from .claude, .gemini, .opencode, .github, .cursor and .codex in the"
            " project and in your home folder."
        ),
    )
    by_name: bool = setting(
        default=True,
        help=(
            "Run an agent when a prompt calls it by name (@review …, use the review agent to …)."
        ),
    )
