"""Operations on files: what a session changed, and the content of files in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import trio
from hilum import ToolError, UsageError, find_history
from hilum.errors import E_DENIED, E_FAILED, E_NOT_FOUND, E_TOO_LARGE
from hilum.services import FileDiff

from hilum_serve.api.going_back import read_part
from hilum_serve.api.shared_types import MAX_IN_ADDRESS
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem
from hilum_serve.shown_files import DiffFacts, describe_diffs, explain_withheld, redact_text

MAX_CONTENT = 1_000_000
"""Maximum size of a file whose content is returned, in bytes."""
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_IN_ADDRESS)]


class ChangedFile(msgspec.Struct, frozen=True):
    """A file that the session changed.

    Attributes:
        path: Its path.
        what: Whether the session created, deleted or changed it.
        added: Number of added lines.
        removed: Number of removed lines.
        note: What the numbers do not show, such as permissions.
    """

    path: str
    what: Literal["created", "deleted", "changed"]
    added: int
    removed: int
    note: str


class ChangedFiles(msgspec.Struct, frozen=True):
    """The files that the session changed and that still differ, sorted by path.

    Attributes:
        files: The files.
        added: Number of added lines.
        removed: Number of removed lines.
        redoable: Whether there is an undo that ``POST …/redo`` can take back.
    """

    files: list[ChangedFile]
    added: int
    removed: int
    redoable: bool


class DiffQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whose changes to show.

    Attributes:
        path: The only file; empty for all files.
        scope: The part of the history.
        name: Id of the part, or the number of an event; empty for the latest one.
    """

    path: Annotated[str, msgspec.Meta(max_length=500)] = ""
    scope: Literal["call", "turn", "run", "session", "since", "undo"] = "session"
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""


class DiffList(msgspec.Struct, frozen=True):
    """Changes of files, sorted by path."""

    diffs: list[DiffFacts]


class ContentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A file in the folder of the session.

    Attributes:
        path: Its path, relative to the folder.
    """

    path: Path


class FileContent(msgspec.Struct, frozen=True):
    """The content of a file.

    Attributes:
        path: Its path.
        size: Its size in bytes.
        text: Its text without secrets; empty for a binary file.
        binary: Whether it has no text.
    """

    path: str
    size: int
    text: str
    binary: bool


async def _diff(hosted: HostedSession, scope: Any, name: str) -> Sequence[FileDiff]:
    """Return the changes in a part of the history; empty if there are none."""
    scope, name = read_part(scope, name)
    try:
        return await find_history(hosted.session).diff(scope, name)
    except UsageError as error:
        # A session that has changed nothing is no error.
        nothing = (("since", "0"), ("run", ""), ("undo", ""))
        if error.code == E_NOT_FOUND and (scope, name) in nothing:
            return []
        raise


def _without_parents(diffs: Sequence[FileDiff]) -> list[FileDiff]:
    """Return the changes without those of folders whose files are listed, as git does."""
    parents = set()
    for diff in diffs:
        parts = diff.path.rstrip("/").split("/")
        parents |= {"/".join(parts[:count]) + "/" for count in range(1, len(parts))}
    return [diff for diff in diffs if diff.path not in parents]


@operation("GET", "/api/sessions/{session}/files", rights="watch", returns=ChangedFiles)
async def list_changed_files(call: Call[None, None]) -> ChangedFiles:
    """List the files that the session changed."""
    diffs = _without_parents(await _diff(call.hosted, "session", ""))
    files = [
        ChangedFile(diff.path, diff.what, diff.added, diff.removed, diff.note) for diff in diffs
    ]
    return ChangedFiles(
        files,
        added=sum(diff.added for diff in diffs),
        removed=sum(diff.removed for diff in diffs),
        redoable=bool(await _diff(call.hosted, "undo", "")),
    )


@operation(
    "GET",
    "/api/sessions/{session}/files/diff",
    rights="watch",
    query=DiffQuery,
    returns=DiffList,
)
async def get_diff(call: Call[DiffQuery, None]) -> DiffList:
    """Return changes of files as unified diffs."""
    wanted = call.query
    diffs = await _diff(call.hosted, wanted.scope, wanted.name)
    if wanted.path:
        diffs = [diff for diff in diffs if diff.path == wanted.path]
        if not diffs:
            raise Problem(404, E_NOT_FOUND, "The session has not changed this file.")
    return DiffList(await describe_diffs(call.hosted.session, diffs))


@operation(
    "GET",
    "/api/sessions/{session}/files/content",
    rights="watch",
    query=ContentQuery,
    returns=FileContent,
    errors=(413,),
)
async def get_file(call: Call[ContentQuery, None]) -> FileContent:
    """Return the content of a file in the session's folder."""
    hosted = call.hosted
    workspace = hosted.session.workspace
    path = call.query.path
    try:
        place = await trio.to_thread.run_sync(lambda: workspace.resolve(path, must_exist=True))
        shown = workspace.relative(place)
        withheld = await explain_withheld(hosted.session, shown)
        if withheld:
            raise Problem(403, E_DENIED, f"This file is not shown here: {withheld}")
        if await trio.to_thread.run_sync(lambda: place.stat().st_size) > MAX_CONTENT:
            raise Problem(413, E_TOO_LARGE, f"The file is larger than {MAX_CONTENT:,} bytes.")
        data = await workspace.read_bytes(shown, MAX_CONTENT)
    except (ToolError, OSError) as error:
        # Folders, pipes and names that are too long; the path as such was no mistake.
        code = error.code if isinstance(error, ToolError) else E_FAILED
        if code != E_FAILED:
            raise
        # The text of an OSError has the path of the file with all links followed.
        reason = error.message if isinstance(error, ToolError) else error.strerror or "It failed."
        raise Problem(404, E_NOT_FOUND, f"There is no such file: {reason}") from None
    # Like git, hilum recognizes a binary file by a NUL near its beginning.
    if b"\0" in data[:8192]:
        return FileContent(shown, len(data), "", binary=True)
    text = data.decode(errors="replace")
    text = await redact_text(hosted.session, text, shown)
    return FileContent(shown, len(data), text, binary=False)
