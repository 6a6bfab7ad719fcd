"""The settings of hilum-files."""

from __future__ import annotations

from hilum import section, setting


@section("files")
class FilesSettings:
    """Limits on the output of the tools and on the content kept for undo."""

    read_limit: int = setting(
        default=10_000,
        minimum=100,
        project="lower",
        help="Maximum number of characters that read_file shows at once.",
    )
    line_limit: int = setting(
        default=2_000,
        minimum=20,
        project="lower",
        help="Maximum number of characters that read_file shows per line.",
    )
    list_limit: int = setting(
        default=500,
        minimum=1,
        project="lower",
        help="Maximum number of entries that list_directory shows.",
    )
    snapshots: bool = setting(
        default=True,
        project=False,
        help=(
            "Take snapshots of the workspace before and after commands, so that their changes"
            " can be undone."
        ),
    )
    incremental_snapshots: bool = setting(
        default=True,
        project=False,
        help=(
            "After a command, check only the paths that Linux (inotify) reported as changed, and"
            " scan the whole workspace while no command runs. If false, every snapshot scans the"
            " whole workspace, which is slower in large ones."
        ),
    )
    snapshot_file_limit: int = setting(
        default=10_000_000,
        minimum=0,
        project="user",
        help="File size, in bytes, above which a snapshot records changes but not content.",
    )
    snapshot_limit: int = setting(
        default=1_000_000_000,
        minimum=0,
        project="user",
        help=(
            "Maximum total size, in bytes, of the files in a workspace whose content a snapshot"
            " keeps."
        ),
    )
    keep_days: float = setting(
        default=30.0,
        minimum=1,
        project=False,
        help="Days after which unused content kept for undo is deleted.",
    )
    keep_limit: int = setting(
        default=5_000_000_000,
        minimum=0,
        project=False,
        help="Maximum size, in bytes, of the content kept for undo in all workspaces combined.",
    )
