"""The settings for custom commands: table ``[commands]``."""

from __future__ import annotations

from hilum import section, setting


@section("commands")
class CommandsSettings:
    """Where custom commands come from, and what they may run."""

    folders: bool = setting(
        default=True,
        project="lower",
        help=(
            "Also read the commands of other coding agents, in the project and in your home folder:"
            " .claude/commands, .gemini/commands, .opencode/commands, .github/prompts,"
            " .cursor/commands, ~/.codex/prompts."
        ),
    )
    shell: bool = setting(
        default=True,
        project="lower",
        help=(
            "Run the shell inserts of custom commands (!`git status`), after the checks and"
            " approvals that apply to the shell tool."
        ),
    )
    timeout: float = setting(
        default=120.0,
        minimum=1.0,
        project=False,
        help="Time limit for each shell insert of a custom command, in seconds.",
    )
