"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("context")
class ContextSettings:
    """What comes with a prompt, and how much of it."""

    environment: bool = setting(
        default=True,
        project="lower",
        help="Send the date, the Git branch and how many files are changed.",
    )
    open_files: bool = setting(
        default=True, project="lower", help="Send files that are open in the user's editor."
    )
    cursor: bool = setting(default=True, project="lower", help="Send the lines around the cursor.")
    linter_errors: bool = setting(default=True, project="lower", help="Send errors of linters.")
    terminal: bool = setting(
        default=True, project="lower", help="Send the end of the terminal's output."
    )
    recent_edits: bool = setting(
        default=True, project="lower", help="Send the beginning of recently edited files."
    )
    search: bool = setting(
        default=True,
        project="lower",
        help="Send lines in which identifiers and files of the prompt are found.",
    )
    tokens: int = setting(
        default=0,
        minimum=0,
        project="user",
        help="Tokens that all of it may take; 0 for a quarter of the model's window.",
    )
    open_file_tokens: int = setting(
        default=8_000, minimum=100, project="lower", help="Tokens that one open file may take."
    )
    search_tokens: int = setting(
        default=2_000, minimum=100, project="lower", help="Tokens that all search results may take."
    )
    timeout: float = setting(default=1.0, minimum=0.01, help="Seconds that a source may take.")
    search_timeout: float = setting(
        default=0.25,
        minimum=0.01,
        help="Seconds that the search may take; what was found by then is sent.",
    )
