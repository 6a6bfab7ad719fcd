"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section()
class CheckerSettings:
    """A checker of the user's own; its program is looked for where the others are."""

    command: list[str] = setting(
        help="Program and arguments; {files} stands for the files to check."
    )
    pattern: str = setting(
        help=(
            "Regular expression for a line of its output, with the groups path, line, message; also"
            " column, severity, code."
        )
    )
    files: list[str] = setting(help="Ends of the names of files it checks, for example .yaml.")
    configs: list[str] = setting(
        factory=list,
        help=(
            "Files that show that a project uses it, for example tool.toml; all projects if empty."
        ),
    )
    quick: bool = setting(default=False, help="Whether it takes a file in well under a second.")


@section("lint")
class LintSettings:
    """When files are checked, with what, and how much the model is told."""

    after_edit: bool = setting(
        default=True, help="Tell the model of new diagnostics after its edits."
    )
    background: bool = setting(
        default=True, help="After an edit, run slow checkers too, beside the work."
    )
    in_context: bool = setting(
        default=True, project="lower", help="Add the errors of files that a prompt names."
    )
    limit: int = setting(
        default=50, minimum=1, project="lower", help="Diagnostics that the model is shown at once."
    )
    timeout: float = setting(default=60.0, minimum=0.1, help="Seconds that a checker may take.")
    off: list[str] = setting(factory=list, help="Checkers that are not run, by name.")
    trusted: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Folders in and below which checkers may run code of the project: plugins,"
            " configuration, build scripts."
        ),
    )
    checkers: dict[str, CheckerSettings] = setting(
        factory=dict,
        project=False,
        help="Further checkers by name; one of a known name replaces it.",
    )
