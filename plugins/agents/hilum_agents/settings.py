"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("agents")
class AgentsSettings:
    """Where agents come from."""

    folders: bool = setting(
        default=True,
        project="lower",
        help=(
            "Also find agents in .claude, .gemini, .opencode, .github, .cursor and .codex of the"
            " project, and of the home."
        ),
    )
    by_name: bool = setting(
        default=True,
        help=(
            "Read a prompt that calls an agent by its name (@review …, use the review agent to …)"
            " as a call."
        ),
    )
