"""Random overlapping commands of two sessions: with ``--shared``, both can be undone, in any order."""

import itertools
import random
import time
from pathlib import Path

import pytest
from hilum import ToolError, Workspace
from hilum.events import PluginEvent
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.journal import Journal
from hilum_files.journal.records import CHANGED, CHANGING, Change, Record
from hilum_files.journal.shared_changes import subtract_others
from hilum_files.journal.tree import node_at
from hilum_files.journal.tree_entries import Node
from msgspec.structs import replace

NAMES = ("log", "one.txt", "two.txt")
START = "".join(f"user {number}\n-\n-\n-\n" for number in range(3))
IDENTITIES = itertools.count(1)


class Author:
    """A session whose commands are recorded as snapshots record them; its undo is real."""

    def __init__(self, root: Path, folder: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.objects = ContentStore(folder)
        self.events = 0
        self.journal = Journal(Workspace(root), self.objects, self.emit, name)
        self.began: float | None = None
        self.number = 0
        self.before: dict[str, Node | None] = {}

    def emit(self, event: PluginEvent) -> None:
        """Write an event."""
        self.events += 1
        self.journal.apply_events([replace(event, seq=self.events)])

    def look(self) -> dict[str, Node | None]:
        """Take a snapshot."""
        found: dict[str, Node | None] = dict.fromkeys(NAMES)
        for name in NAMES:
            if (self.root / name).exists():
                found[name] = node_at(self.root / name, lambda data: self.objects.put([data])[0])
        return found

    def begin(self) -> None:
        """Begin a command."""
        self.began = time.time()
        self.number = self.journal.shared.last_number()
        self.before = self.look()

    def end(self, run: str) -> None:
        """End the command, and record what it or another session changed in the meantime."""
        assert self.began is not None
        changes: list[Change] = []
        after = self.look()
        for name in NAMES:
            if after[name] != self.before[name]:
                others = self.journal.shared.since(self.number, name)
                certain = [other for other in others if other.began >= self.began]
                changes += subtract_others(Change(name, self.before[name], after[name]), certain)
        if changes:
            number = next(IDENTITIES)
            record = Record(
                id=f"{number:012}",
                changes=tuple(changes),
                tool="run_terminal_cmd",
                what="command",
                call=f"call{number}",
                turn=1,
                run=run,
            )
            self.emit(record.to_event(CHANGING))
            self.emit(record.to_event(CHANGED))
            self.journal.share(record, self.began)
        self.began = None

    def append(self, name: str) -> None:
        """Let the command add a line to a file."""
        with (self.root / name).open("a") as file:
            file.write(f"{self.name} {next(IDENTITIES)}\n")

    @property
    def has_changes(self) -> bool:
        """Whether something is not undone."""
        return bool(self.journal.ledger.select("session"))


def content(root: Path) -> dict[str, str]:
    """Return everything in the workspace."""
    return {path.name: path.read_text() for path in sorted(root.iterdir())}


@pytest.mark.slow(cases=8)
@pytest.mark.parametrize("seed", range(40))
def test_overlapping_commands_are_undone_in_any_order(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "log").write_text(START)
    authors = [Author(root, tmp_path / "objects", name) for name in ("one", "two")]
    runs = dict.fromkeys(("one", "two"), 0)
    for _ in range(dice.randrange(10, 60)):
        author = dice.choice(authors)
        if author.began is None:
            runs[author.name] += dice.random() < 0.2
            author.begin()
        elif dice.random() < 0.6:
            author.append(dice.choice(["log", f"{author.name}.txt"]))
        else:
            author.end(f"{author.name}{runs[author.name]}")
    for author in authors:
        if author.began is not None:
            author.end(f"{author.name}{runs[author.name]}")
    wanted = START
    if dice.random() < 0.5:
        text = (root / "log").read_text()
        wanted = START.replace("user 0", "changed by the user")
        (root / "log").write_text(text.replace("user 0", "changed by the user"))
    # One after the other, or by turns.
    is_mixed = dice.random() < 0.5
    dice.shuffle(authors)
    while any(author.has_changes for author in authors):
        left = [author for author in authors if author.has_changes]
        author = dice.choice(left) if is_mixed else left[0]
        before = content(root)
        author.journal.undo("run", shared=True)
        if content(root) != before and dice.random() < 0.3:
            author.journal.undo("undo")
            assert content(root) == before
            author.journal.undo("run", shared=True)
    assert content(root) == {"log": wanted}


def test_the_hints_name_steps_that_help(tmp_path: Path) -> None:
    """Two sessions write to one file by turns: neither can be undone alone."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "log").write_text(START)
    one, two = authors = [Author(root, tmp_path / "objects", name) for name in ("one", "two")]
    for author in (*authors, *authors):
        author.begin()
        author.append("log")
        author.end(author.name)
    written = content(root)
    for author, other in ((one, two), (two, one)):
        with pytest.raises(ToolError) as caught:
            author.journal.undo("run")
        assert f"hilum undo --session {other.name}" in caught.value.hint
        assert "--shared" in caught.value.hint
        assert content(root) == written
    plan = one.journal.undo("run", shared=True)
    assert plan.shared == {"log": ("two",)}
    assert content(root) == {"log": START}
    two.journal.undo("run")
    assert content(root) == {"log": START}
    assert not two.has_changes


def test_no_hint_repeats_what_was_given(tmp_path: Path) -> None:
    """The user changed the same lines: no other session is in the way."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "log").write_text(START)
    authors = [Author(root, tmp_path / "objects", name) for name in ("one", "two")]
    for author in authors:
        author.begin()
    authors[0].append("log")
    for author in authors:
        author.end(author.name)
    text = (root / "log").read_text()
    (root / "log").write_text(f"{text}more\n".replace("one", "ONE"))
    for author in authors:
        with pytest.raises(ToolError) as caught:
            author.journal.undo("run", shared=True)
        assert "--shared" not in caught.value.hint
        assert "--session" not in caught.value.hint
        assert "by session" not in str(caught.value)
