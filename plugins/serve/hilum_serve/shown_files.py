"""What users may see of files: nothing that the agent could not read without approval, no secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import trio
from hilum import HilumError, Session, find_content_policy, judge_call
from hilum.services import FileDiff
from hilum.sharing import JoinedSession
from hilum.sharing.messages import JudgeCall

MAX_DIFF = 400_000
"""Maximum number of characters of one file's diff; longer ones are cut."""
READ_TOOL = "read_file"


class DiffFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one file.

    Attributes:
        path: Path of the file, relative to the folder of the session.
        what: Whether the file is created, deleted or changed.
        diff: The change as a unified diff without secrets; empty if there is no text to compare, or
            if the file is not shown.
        note: What the diff does not show, such as permissions, or why the diff is not shown.
        added: Number of added lines.
        removed: Number of removed lines.
        cut: Number of characters of the whole diff, if it is cut; otherwise 0.
    """

    path: str
    what: Literal["created", "deleted", "changed"]
    diff: str
    note: str
    added: int
    removed: int
    cut: int = 0


async def describe_diffs(session: Session, diffs: Sequence[FileDiff]) -> list[DiffFacts]:
    """Return changes of files as clients may see them."""
    return [await _describe_diff(session, diff) for diff in diffs]


async def _describe_diff(session: Session, diff: FileDiff) -> DiffFacts:
    text = ""
    note = diff.note
    if diff.diff:
        withheld = await explain_withheld(session, diff.path)
        if withheld:
            note = f"This file is not shown here: {withheld}"
        else:
            text = await _redact_diff(session, diff)
            if not text:
                note = "The change is not shown here, because it contains a secret."
    return DiffFacts(
        path=diff.path,
        what=diff.what,
        diff=text[:MAX_DIFF],
        note=note,
        added=diff.added,
        removed=diff.removed,
        cut=len(text) if len(text) > MAX_DIFF else 0,
    )


async def _redact_diff(session: Session, diff: FileDiff) -> str:
    """Return a diff without secrets; empty if the diff would not be valid without them."""
    lines = diff.diff.split("\n")
    # The signs at the beginnings of the lines would hide secrets that begin a line or have several.
    content = "\n".join(line[1:] for line in lines)
    redacted = (await redact_text(session, content, diff.path)).split("\n")
    # A placeholder for a secret of several lines has one line, so the signs match no more.
    if len(redacted) != len(lines):
        return ""
    return "\n".join(line[:1] + text for line, text in zip(lines, redacted, strict=True))


async def redact_text(session: Session, text: str, path: str) -> str:
    """Return the text of a file without secrets."""
    policy = find_content_policy(session)
    if policy is None:
        return text
    return await trio.to_thread.run_sync(policy.redact, text, path)


async def explain_withheld(session: Session, path: str) -> str:
    """Return why a file is not shown; empty if the agent could read it without approval.

    The file need not exist.
    """
    policy = find_content_policy(session)
    if policy is not None:
        try:
            place = await trio.to_thread.run_sync(session.workspace.resolve, path)
        except HilumError as error:
            return error.message
        reason = await trio.to_thread.run_sync(policy.explain_withheld_file, place, path)
        if reason:
            return reason
    return await _judge_reading(session, path)


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
