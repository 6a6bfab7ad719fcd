"""The settings of the lint plugin."""

from __future__ import annotations

from hilum import section, setting


@section()
class CheckerSettings:
    """A user-defined checker, whose program is searched for in the same folders as all others."""

    command: list[str] = setting(
        help="Program and arguments; {files} is replaced by the files to check."
    )
    pattern: str = setting(
        help=(
            "Regular expression for a line of its output, with the groups path, line, message; also"
            " column, severity, code."
        )
    )
    files: list[str] = setting(help="Suffixes of the files that it checks, for example .yaml.")
    configs: list[str] = setting(
        factory=list,
        help=(
            "Files whose presence means that a project uses it, such as tool.toml; if empty, it"
            " runs in all projects."
        ),
    )
    quick: bool = setting(default=False, help="Whether it checks a file in well under a second.")


@section("lint")
class LintSettings:
    """When files are checked, with which checkers, and how many diagnostics the model reads."""

    after_edit: bool = setting(
        default=True, help="Report new diagnostics to the model after its edits."
    )
    background: bool = setting(
        default=True,
        help=(
            "After an edit, also run slow checkers, as language servers or in the background. If"
            " false, only quick checkers run."
        ),
    )
    wait: float = setting(
        default=0.005,
        minimum=0,
        maximum=1,
        project="lower",
        help=(
            "Seconds that a round with edits waits for checkers that are already running; later"
            " results are reported after the next round. Raise it if the model should always read"
            " them with the result of its edit, at the price of slower rounds."
        ),
    )
    in_context: bool = setting(
        default=True,
        project="lower",
        help="Add to a prompt the errors in the files that it names.",
    )
    limit: int = setting(
        default=50,
        minimum=1,
        project="lower",
        help="Maximum number of diagnostics shown to the model at once.",
    )
    timeout: float = setting(default=60.0, minimum=0.1, help="Time limit of a checker, in seconds.")
    off: list[str] = setting(factory=list, help="Names of checkers to disable.")
    trusted: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Folders in and below which checkers may run the project's code: plugins,"
            " configuration, build scripts."
        ),
    )
    checkers: dict[str, CheckerSettings] = setting(
        factory=dict,
        project=False,
        help="Additional checkers by name; one that has the name of a known checker replaces it.",
    )
