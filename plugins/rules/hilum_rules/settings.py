"""The settings of the rules plugin.

Projects cannot change these settings; they use rules files instead.
"""

from __future__ import annotations

from hilum import section, setting


@section("rules")
class RulesSettings:
    """The sources of the rules, and limits on their size."""

    text: list[str] = setting(
        factory=list, project=False, help="Your own rules, in Markdown, for all folders."
    )
    files: list[str] = setting(
        factory=list,
        project=False,
        help="Additional rules files: paths or patterns, absolute, in ~/ or relative to the workspace.",
    )
    skip: list[str] = setting(
        factory=list,
        project=False,
        help="Rules files to skip, as .gitignore patterns, such as CLAUDE.md or docs/**.",
    )
    homes: bool = setting(
        default=True,
        project=False,
        help="Read your rules for other agents, such as those in ~/.codex, ~/.claude and ~/.gemini.",
    )
    import_from: list[str] = setting(
        factory=list,
        project=False,
        help="Folders outside the workspace from which rules files may import (@path).",
    )
    remind: bool = setting(
        default=True, project=False, help="Remind the model of the rules after each round of calls."
    )
    file_limit: int = setting(
        default=100_000,
        minimum=1_000,
        project=False,
        help="Maximum number of bytes to read from a file.",
    )
    prompt_limit: int = setting(
        default=120_000,
        minimum=1_000,
        project=False,
        help="Maximum size, in bytes, of the rules shown to the model; all rules are enforced.",
    )
