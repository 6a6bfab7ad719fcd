"""Random histories of two sessions and the user in one folder: edits, undo, redo, death in the
middle.

An undo loses nothing of anybody else, a redo brings back what it took, and what can be undone is.
"""

import itertools
import random
from pathlib import Path

import pytest
from hilum import ToolError, Workspace
from hilum.events import PluginEvent
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.journal import Journal
from hilum_files.journal.records import CHANGED, CHANGING, Change, Record
from hilum_files.journal.tracked_workspace import lock_workspace
from hilum_files.journal.tree import node_at
from hilum_files.journal.tree_entries import Node
from hilum_files.journal.undo_steps import carry_out
from msgspec.structs import replace

ZONES = ("user", "one", "two")
LINES = 3
START = "".join(f"{zone} {n}\n-\n-\n-\n" for zone in ZONES for n in range(LINES))
IDENTITIES = itertools.count(1)


class Killed(BaseException):
    """The process ended here."""


class Author:
    """A session as its journal has it: what agents do is done here, what undo does is real.

    Args:
        root: The workspace.
        folder: Where contents are kept.
        name: Id of the session.

    Attributes:
        survives: How many steps of an undo are done before the process is killed; ``None`` where it
            is not.
    """

    def __init__(self, root: Path, folder: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.objects = ContentStore(folder)
        self.events: list[PluginEvent] = []
        self.survives: int | None = None
        self.open()

    def open(self) -> None:
        """Open the session, as after a death."""
        self.journal = Journal(Workspace(self.root), self.objects, self.emit, self.name)
        self.journal.apply_events(self.events)
        self.journal.finish_interrupted()

    def emit(self, event: PluginEvent) -> None:
        """Write an event, or die in the middle of the change that it announces."""
        event = replace(event, seq=len(self.events) + 1)
        self.events.append(event)
        self.journal.apply_events([event])
        if self.survives is not None:
            (record,) = self.journal.ledger.open.values()
            carry_out(self.journal.workspace, self.objects, record.changes[: self.survives])
            raise Killed

    def edit(self, run: str, call: str, texts: dict[str, str | None]) -> None:
        """Change files in one call."""
        with self.journal.tree_lock, lock_workspace(self.root):
            changes = []
            for path, text in texts.items():
                before = self.look(path)
                write(self.root / path, text)
                after = self.look(path)
                if after != before:
                    changes.append(Change(path, before, after))
            if not changes:
                return
            identity = f"{next(IDENTITIES):012}"
            record = Record(
                id=identity, changes=tuple(changes), tool="edit", call=call, turn=1, run=run
            )
            self.emit(record.to_event(CHANGING))
            self.emit(record.to_event(CHANGED))
            self.journal.share(record)

    def look(self, path: str) -> Node | None:
        """Keep what is at a path."""
        try:
            return node_at(self.root / path, lambda data: self.objects.put([data])[0])
        except FileNotFoundError:
            return None

    def holding(self) -> list[Record]:
        """The changes that are not undone."""
        return self.journal.ledger.select("session")


def write(path: Path, text: str | None) -> None:
    """Write a file, or delete it."""
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text)


def content(root: Path) -> dict[str, str]:
    """Everything in the workspace."""
    return {path.name: path.read_text() for path in sorted(root.iterdir())}


def edit_zone(text: str, zone: str, dice: random.Random) -> str:
    """Change one of the lines that only one author changes."""
    lines = text.split("\n")
    index = (ZONES.index(zone) * LINES + dice.randrange(LINES)) * 4
    lines[index] = f"{zone} {dice.choice('abcd')}{next(IDENTITIES) if dice.random() < 0.7 else ''}"
    return "\n".join(lines)


def zone_of(text: str, zone: str) -> list[str]:
    """The lines that only one author changes."""
    start = ZONES.index(zone) * LINES * 4
    return text.split("\n")[start : start + LINES * 4]


def die_in_undo(author: Author, scope: str, name: str, dice: random.Random) -> None:
    """Undo, and die after some of its steps; the session is opened again."""
    plan = author.journal.plan(scope, name)
    if plan.steps and not plan.conflicts:
        author.survives = dice.randrange(len(plan.steps) + 1)
        with pytest.raises(Killed):
            author.journal.undo(scope, name)
        author.survives = None
        author.open()


def others(text: dict[str, str], author: Author) -> dict[str, object]:
    """What is not the author's in a workspace."""
    found: dict[str, object] = {
        name: content for name, content in text.items() if not name.startswith(author.name)
    }
    for name in ("shared", "second"):
        found[name] = [zone_of(text[name], zone) for zone in ZONES if zone != author.name]
    return found


@pytest.mark.slow(cases=8)
@pytest.mark.parametrize("seed", range(25))
def test_nothing_of_others_is_lost_and_what_can_be_undone_is(tmp_path: Path, seed: int) -> None:
    """Each author has lines of its own in two files, and a file of its own, which it also deletes
    and writes as a whole.
    """
    dice = random.Random(seed)
    root = tmp_path / "workspace"
    root.mkdir()
    for name in ("shared", "second"):
        (root / name).write_text(START)
    authors = [Author(root, tmp_path / "objects", name) for name in ("one", "two")]
    runs = {author.name: 0 for author in authors}
    for _ in range(30):
        author = dice.choice(authors)
        action = dice.random()
        if action < 0.15:
            path = root / dice.choice(["shared", "second"])
            path.write_text(edit_zone(path.read_text(), "user", dice))
        elif action < 0.55:
            runs[author.name] += dice.random() < 0.6
            own = f"{author.name}.txt"
            texts: dict[str, str | None] = {}
            for name in dice.sample(["shared", "second", own], dice.randrange(1, 4)):
                if name == own:
                    lines = [dice.choice(("a", "b", "c")) for _ in range(3)]
                    texts[name] = None if dice.random() < 0.2 else "\n".join(lines) + "\n"
                else:
                    texts[name] = edit_zone((root / name).read_text(), author.name, dice)
            author.edit(f"run{runs[author.name]}", f"call{next(IDENTITIES)}", texts)
        elif author.holding():
            check_undo(author, dice)
    for author in authors:
        while author.holding():
            author.journal.undo("run")
    assert sorted(content(root)) == ["second", "shared"]
    for text in content(root).values():
        for zone in ("one", "two"):
            assert zone_of(text, zone) == zone_of(START, zone)


def check_undo(author: Author, dice: random.Random) -> None:
    """Undo something at random, and redo it perhaps.

    The last run can always be undone. A call can be where no later one changed the same.
    """
    before = content(author.root)
    kept = others(before, author)
    held = [record.id for record in author.holding()]
    whole = dice.random() < 0.5
    scope = "run" if whole else "call"
    name = "" if whole else dice.choice(author.holding()).call
    if dice.random() < 0.2:
        die_in_undo(author, scope, name, dice)
        assert others(content(author.root), author) == kept
        return
    try:
        author.journal.undo(scope, name)
    except ToolError:
        assert not whole
        assert content(author.root) == before
        return
    assert others(content(author.root), author) == kept
    if content(author.root) != before and dice.random() < 0.5:
        author.journal.undo("undo")
        assert content(author.root) == before
        assert [record.id for record in author.holding()] == held


@pytest.mark.slow(cases=8)
@pytest.mark.parametrize("seed", range(25))
def test_an_undo_takes_nothing_that_others_wrote(tmp_path: Path, seed: int) -> None:
    """All write to the same few lines, each time a word of their own.

    An undo may be refused, but no word of another that is there before it is gone after it, and a
    redo brings back what was there.
    """
    dice = random.Random(seed)
    root = tmp_path / "workspace"
    root.mkdir()
    file = root / "shared"
    file.write_text("".join(f"line {number}\n" for number in range(6)))
    authors = [Author(root, tmp_path / "objects", name) for name in ("one", "two")]
    for _ in range(60):
        author = dice.choice(authors)
        action = dice.random()
        if action < 0.5:
            who = dice.choice(["user", author.name])
            lines = file.read_text().splitlines()
            begin = dice.randrange(len(lines) + 1)
            count = dice.randrange(3)
            words = [f"{who}-{next(IDENTITIES)}" for _ in range(dice.randrange(1, 3))]
            lines[begin : begin + count] = words
            text = "".join(f"{line}\n" for line in lines)
            if who == "user":
                file.write_text(text)
            else:
                author.edit(
                    f"run{dice.randrange(1000)}", f"call{next(IDENTITIES)}", {"shared": text}
                )
        elif author.holding():
            before = file.read_text()
            try:
                author.journal.undo("call", dice.choice(author.holding()).call)
            except ToolError:
                assert file.read_text() == before
                continue
            after = file.read_text()
            foreign = {word for word in before.split() if not word.startswith(author.name)}
            assert foreign <= set(after.split())
            if after != before and dice.random() < 0.5:
                author.journal.undo("undo")
                assert file.read_text() == before
