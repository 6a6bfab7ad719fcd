"""Creates unified diffs of recorded changes, one per path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from hilum import ToolError

from hilum_files.journal.journal import Journal
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.records import Change, Record, unspell_path
from hilum_files.journal.tree_entries import Node
from hilum_files.text import decode, show, unified_diff, with_newlines

MAX_DIFF_BYTES = 2_000_000
LEFT_OUT = "left out of snapshots"


class FileDiff(msgspec.Struct, frozen=True):
    """The changes at one path.

    Args:
        path: The path, for messages.
        what: The kind of change.
        diff: A unified diff; empty if there is no text to compare.
        note: Changes that the diff does not show: permissions, a binary file, the target of a link.
        added: Number of added lines.
        removed: Number of removed lines.
        agents: Names of the agents that changed the path, in order; ``main`` is the user's agent.
    """

    path: str
    what: Literal["created", "deleted", "changed"]
    diff: str = ""
    note: str = ""
    added: int = 0
    removed: int = 0
    agents: tuple[str, ...] = ()


def net_changes(ledger: Ledger, records: Sequence[Record]) -> list[Change]:
    """Return the state of each path before the first record and after the last one.

    Changes that were undone in between are ignored.
    """
    found: list[Change] = []
    for path, changes in sorted(ledger.compose(records).items()):
        before = changes[0].before
        after = changes[-1].after
        has_change = any(change.before != change.after for change in changes)
        if has_change and before != after:
            found.append(Change(path, before, after))
    return found


def diff_records(journal: Journal, records: Sequence[Record]) -> list[FileDiff]:
    """Return the changes in the given records, which must be ordered oldest first. Blocks."""
    # A dict keeps the order and drops duplicates.
    agents: dict[str, dict[str, None]] = {}
    for record in records:
        for change in record.changes:
            agents.setdefault(change.path, {})[record.agent] = None
    diffs: list[FileDiff] = []
    for change in net_changes(journal.ledger, records):
        names = tuple(agents[change.path])
        diffs.append(msgspec.structs.replace(diff_change(journal, change), agents=names))
    return diffs


def diff_change(journal: Journal, change: Change) -> FileDiff:
    """Return one change as a diff."""
    path = show(unspell_path(change.path))
    node = change.after or change.before
    kind = node.kind if node else ""
    if kind in ("folder", "skipped"):
        path += "/"
    diff, note = _diff_contents(journal, path, change.before, change.after)
    what = LEFT_OUT if kind == "skipped" else _describe_nodes(change.before, change.after)
    # The first two lines are the header, and begin with `---` and `+++`. As in git, only a newline
    # ends a line: form feeds and Unicode separators, too, would end one in `splitlines`.
    body = diff.split("\n")[2:]
    return FileDiff(
        path,
        _describe_change(change),
        diff,
        "; ".join(filter(None, [what, note])),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
    )


def _describe_change(change: Change) -> Literal["created", "deleted", "changed"]:
    if change.before is None:
        return "created"
    return "deleted" if change.after is None else "changed"


def _describe_nodes(before: Node | None, after: Node | None) -> str:
    """Describe how an entry's kind or permissions changed; the text is empty if they did not."""
    if before is None or after is None:
        return ""
    if before.kind != after.kind:
        return f"a {before.kind} became a {after.kind}"
    if before.mode != after.mode:
        return f"mode {before.mode:o} became {after.mode:o}"
    return ""


def _diff_contents(
    journal: Journal, path: str, before: Node | None, after: Node | None
) -> tuple[str, str]:
    """Return the diff, or a note on why there is none; both are empty for equal contents."""
    if before is not None and after is not None and before.hash == after.hash:
        return "", ""
    kinds = {node.kind for node in (before, after) if node is not None}
    # Folders have no content.
    if not kinds <= {"file", "link"}:
        return "", ""
    old = journal.content(before)
    new = journal.content(after)
    if "link" in kinds:
        targets = [show(data.decode(errors="replace")) for data in (old, new) if data]
        return "", f"link {' -> '.join(targets)}"
    return _diff_files(path, old, new, is_deleted=after is None)


def _diff_files(
    path: str, old: bytes | None, new: bytes | None, *, is_deleted: bool
) -> tuple[str, str]:
    """Return the diff of two files, or a note explaining why there is none.

    Args:
        path: The path, for the header of the diff.
        old: The content before the change; ``None`` if it was not kept.
        new: The content after the change; ``None`` if it was not kept.
        is_deleted: Whether the file was deleted.
    """
    if old is None or new is None:
        return "", "content not kept"
    # difflib takes quadratic time.
    if len(old) + len(new) > MAX_DIFF_BYTES:
        return "", f"{len(old):,} bytes became {len(new):,}"
    try:
        old_text = decode(old, path)
        new_text = decode(new, path)
    except ToolError:
        return "", f"not text; {len(old):,} bytes became {len(new):,}"
    # Line endings are ignored.
    diff = unified_diff(path, with_newlines(old_text, "\n"), with_newlines(new_text, "\n"))
    if not diff:
        return "", "line endings only" if old != new else "empty"
    if is_deleted:
        diff = diff.replace(f"\n+++ b/{path}\n", "\n+++ /dev/null\n", 1)
    return diff, ""
