"""The settings of hilum-search."""

from __future__ import annotations

from hilum import section, setting


@section("search")
class SearchSettings:
    """Limits on the duration and the results of a search."""

    timeout: float = setting(default=15.0, minimum=0.1, help="Time limit of a search, in seconds.")
    limit: int = setting(
        default=50, minimum=1, project="lower", help="Maximum number of matching lines in a result."
    )
    path_limit: int = setting(
        default=100,
        minimum=1,
        project="lower",
        help="Maximum number of paths in a glob_search result.",
    )
    max_file_size: int = setting(
        default=10_000_000,
        minimum=0,
        project="lower",
        help=(
            "Size, in bytes, above which a file is searched only if the call names it; 0 for no"
            " limit."
        ),
    )
