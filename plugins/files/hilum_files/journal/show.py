"""Changes as people read them: each path once, with a unified diff of what it was and what it
became.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from hilum import ToolError

from hilum_files.journal.journal import Journal
from hilum_files.journal.records import Change, Ledger, Record, unspell
from hilum_files.journal.tree import Node
from hilum_files.text import decode, show, unified_diff

DIFF_BYTES = 2_000_000
LEFT_OUT = "left out of snapshots"


class Shown(msgspec.Struct, frozen=True):
    """What was done to one path.

    Args:
        path: The path, as it is shown.
        what: What became of it.
        diff: A unified diff; empty where there is no text to compare.
        note: What the diff does not say: other permissions, a binary file, the target of a link.
        added: Lines that are new.
        removed: Lines that are gone.
        agents: Names of the agents that changed it, in order; ``main`` is the one that the user
            talks to.
    """

    path: str
    what: Literal["created", "deleted", "changed"]
    diff: str = ""
    note: str = ""
    added: int = 0
    removed: int = 0
    agents: tuple[str, ...] = ()


def composed(ledger: Ledger, records: Sequence[Record]) -> list[Change]:
    """Join changes: for each path what was there before the first and after the last, without what
    is undone between.
    """
    found = []
    for path, changes in sorted(ledger.compose(records).items()):
        if any(change.before != change.after for change in changes):
            found.append(Change(path, changes[0].before, changes[-1].after))
    return [change for change in found if change.before != change.after]


def shown(journal: Journal, records: Sequence[Record]) -> list[Shown]:
    """Show what records changed, oldest first. Blocks."""
    agents: dict[str, dict[str, None]] = {}
    for record in records:
        for change in record.changes:
            agents.setdefault(change.path, {})[record.agent] = None
    found = [
        (show_change(journal, change), agents[change.path])
        for change in composed(journal.ledger, records)
    ]
    return [msgspec.structs.replace(each, agents=tuple(names)) for each, names in found]


def show_change(journal: Journal, change: Change) -> Shown:
    """Show one change."""
    before = change.before
    after = change.after
    path = show(unspell(change.path))
    what: Literal["created", "deleted", "changed"]
    what = "created" if before is None else "deleted" if after is None else "changed"
    notes = []
    if before and after and before.kind != after.kind:
        notes.append(f"a {before.kind} became a {after.kind}")
    elif before and after and before.mode != after.mode:
        notes.append(f"mode {before.mode:o} became {after.mode:o}")
    node = after or before
    if node is not None and node.kind == "folder":
        path += "/"
    if node is not None and node.kind == "skipped":
        path = path + "/"
        notes = [LEFT_OUT]
    diff = ""
    if before is None or after is None or before.hash != after.hash:
        diff, note = _diff(journal, path, before, after)
        notes += [note] * bool(note)
    body = diff.splitlines()[2:]
    added, removed = (sum(line.startswith(sign) for line in body) for sign in "+-")
    return Shown(path, what, diff, "; ".join(notes), added, removed)


def _diff(journal: Journal, path: str, before: Node | None, after: Node | None) -> tuple[str, str]:
    """Return the diff, or why there is none."""
    kinds = {node.kind for node in (before, after) if node is not None}
    if not kinds <= {"file", "link"}:
        return "", ""
    old = journal.content(before)
    new = journal.content(after)
    if "link" in kinds:
        told = " -> ".join(show(data.decode(errors="replace")) for data in (old, new) if data)
        return "", f"link {told}"
    if old is None or new is None:
        return "", "content not kept"
    if len(old) + len(new) > DIFF_BYTES:
        return "", f"{len(old):,} bytes became {len(new):,}"
    try:
        texts = [decode(data, path).replace("\r\n", "\n") for data in (old, new)]
    except ToolError:
        return "", f"no text; {len(old):,} bytes became {len(new):,}"
    if texts[0] == texts[1]:
        return "", "line ends only" if old != new else "empty"
    diff = unified_diff(path, texts[0], texts[1])
    if after is None:
        diff = diff.replace(f"\n+++ b/{path}\n", "\n+++ /dev/null\n", 1)
    return diff, ""
