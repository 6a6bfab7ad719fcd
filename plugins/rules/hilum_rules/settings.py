"""The settings of the plugin.

A project sets none of them: it has files of rules for what it wants to say.
"""

from __future__ import annotations

from hilum import section, setting


@section("rules")
class RulesSettings:
    """Which rules are read, and how much of them."""

    text: list[str] = setting(
        factory=list, project=False, help="Rules of your own, in Markdown, for all folders."
    )
    files: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Further files of rules: paths or patterns, absolute, from ~/, or relative to the"
            " workspace."
        ),
    )
    skip: list[str] = setting(
        factory=list,
        project=False,
        help="Files of rules that are not read, as patterns of a .gitignore: CLAUDE.md, docs/**.",
    )
    homes: bool = setting(
        default=True,
        project=False,
        help="Read what you wrote for other agents: ~/.codex, ~/.claude, ~/.gemini and the like.",
    )
    import_from: list[str] = setting(
        factory=list,
        project=False,
        help="Folders outside of the workspace from which files of rules may import (@path).",
    )
    remind: bool = setting(
        default=True, project=False, help="Remind the model of the rules after each round of calls."
    )
    file_limit: int = setting(
        default=100_000, minimum=1_000, project=False, help="Bytes of a file that are read."
    )
    prompt_limit: int = setting(
        default=120_000,
        minimum=1_000,
        project=False,
        help="Bytes of rules that the model is shown; all are enforced.",
    )
