"""Operations on files: what a session changed, and the content of files in its folder."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import trio
from hilum import (
    HilumError,
    Session,
    ToolError,
    UsageError,
    find_content_policy,
    find_history,
    judge_call,
)
from hilum.errors import E_DENIED, E_FAILED, E_NOT_FOUND, E_TOO_LARGE
from hilum.sharing import JoinedSession
from hilum.sharing.messages import JudgeCall

from hilum_serve.api.going_back import DiffFacts, describe_diffs, read_part
from hilum_serve.api.shared_types import MAX_IN_ADDRESS
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem

MAX_CONTENT = 1_000_000
"""Maximum size of a file whose content is returned, in bytes."""
READ_TOOL = "read_file"
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


async def _diff(hosted: HostedSession, scope: Any, name: str) -> list[DiffFacts]:
    """Return the changes in a part of the history; empty if there are none."""
    scope, name = read_part(scope, name)
    try:
        return describe_diffs(await find_history(hosted.session).diff(scope, name))
    except UsageError as error:
        # A session that has changed nothing is no error.
        nothing = (("since", "0"), ("run", ""), ("undo", ""))
        if error.code == E_NOT_FOUND and (scope, name) in nothing:
            return []
        raise


def _without_parents(diffs: list[DiffFacts]) -> list[DiffFacts]:
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
    if not wanted.path:
        return DiffList(diffs)
    found = [diff for diff in diffs if diff.path == wanted.path]
    if not found:
        raise Problem(404, E_NOT_FOUND, "The session has not changed this file.")
    return DiffList(found)


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
        await _check_readable(hosted, shown)
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
    policy = find_content_policy(hosted.session)
    if policy is not None:
        text = await trio.to_thread.run_sync(policy.redact, text, shown)
    return FileContent(shown, len(data), text, binary=False)


async def _check_readable(hosted: HostedSession, path: str) -> None:
    """Check that the agent could read a file without approval, so that users may see it here.

    Raises:
        Problem: A rule or the content policy withholds the file (403).
    """
    session = hosted.session
    reason = ""
    policy = find_content_policy(session)
    if policy is not None:
        place = session.workspace.resolve(path)
        reason = await trio.to_thread.run_sync(policy.explain_withheld_file, place, path)
    if not reason:
        reason = await _judge_reading(session, path)
    if reason:
        raise Problem(403, E_DENIED, f"This file is not shown here: {reason}")


async def _judge_reading(session: Session, path: str) -> str:
    """Return why the agent could not read a file without approval; empty if it could."""
    arguments = msgspec.json.encode({"path": path}).decode()
    try:
        if isinstance(session, JoinedSession):
            # Only the owner's plugins know the rules of the session.
            reply = await session.request(JudgeCall(READ_TOOL, arguments))
            kind = reply.result
            reason = reply.text or ""
        elif READ_TOOL in session.tools:
            verdict = await judge_call(session.agents["main"], READ_TOOL, arguments)
            kind = verdict.kind
            reason = verdict.reason
        else:
            return ""
    except HilumError as error:
        return error.message
    return "" if kind == "allow" else reason or "A rule withholds it."
