"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("context")
class ContextSettings:
    """Which context is sent with a prompt, and how much of it."""

    environment: bool = setting(
        default=True,
        project="lower",
        help="Send the date, the Git branch and the number of changed files.",
    )
    open_files: bool = setting(
        default=True,
        project="lower",
        help="Send files that are open in the user's editor.",
    )
    cursor: bool = setting(default=True, project="lower", help="Send the lines around the cursor.")
    linter_errors: bool = setting(default=True, project="lower", help="Send linter errors.")
    terminal: bool = setting(
        default=True,
        project="lower",
        help="Send the end of the terminal output.",
    )
    recent_edits: bool = setting(
        default=True,
        project="lower",
        help="Send the beginning of recently edited files.",
    )
    search: bool = setting(
        default=True,
        project="lower",
        help="Send lines that contain identifiers from the prompt, and the files that it names.",
    )
    tokens: int = setting(
        default=0,
        minimum=0,
        project="user",
        help="Maximum number of tokens in total; 0 for a quarter of the model's context window.",
    )
    open_file_tokens: int = setting(
        default=8_000,
        minimum=100,
        project="lower",
        help="Maximum number of tokens for one open file.",
    )
    search_tokens: int = setting(
        default=2_000,
        minimum=100,
        project="lower",
        help="Maximum number of tokens for all search results.",
    )
    timeout: float = setting(
        default=1.0, minimum=0.01, help="Time limit for each source, in seconds."
    )
    git_timeout: float = setting(
        default=0.8,
        minimum=0.0,
        help=(
            "Seconds that a prompt waits for the Git status. If Git takes longer, the model reads"
            " the status after its next tool calls."
        ),
    )
    search_timeout: float = setting(
        default=0.25,
        minimum=0.01,
        help="Time limit of the search, in seconds; results found by then are sent.",
    )
