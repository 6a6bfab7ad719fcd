"""The settings of hilum-search."""

from __future__ import annotations

from hilum import section, setting


@section("search")
class SearchSettings:
    """Limits on the duration and the results of a search."""

    timeout: float = setting(default=15.0, minimum=0.1, help="Maximum seconds of a search.")
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
        help="File size, in bytes, above which a file is searched only if named; 0 for no limit.",
    )
