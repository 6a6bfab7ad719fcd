"""The first snapshot is taken while the model works on the first request."""

import threading
from functools import partial

import hilum_files
import hilum_shell
import pytest
import trio
from hilum.events import CallDone, RunEnded
from hilum.testing import ScriptedModel, open_bench, pause, say, use
from hilum_files.journal import changes, folder_watch
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.folder_watch import find_file_system
from hilum_files.journal.snapshots import Snapshots
from hilum_files.journal.tree import SnapshotLimits, TreeWalk
from hilum_files.journal.tree_entries import Tree

pytestmark = pytest.mark.skipif(
    find_file_system("/tmp") not in folder_watch.LOCAL_FILE_SYSTEMS,
    reason="inotify is not used on this file system",
)
FILES = {"a.txt": "one\n", "src/b.txt": "b\n", "src/deep/c.txt": "c\n"}
LIMIT = 20


class Ahead:
    """What the snapshots do, and a gate that can hold back the end of a walk.

    Attributes:
        walks: The number of walks.
        begun: Set when the first walk has begun.
        taken: Set when a snapshot was taken ahead of the first command.
        gate: The walk ends when this is set, or when it is cancelled.
    """

    def __init__(self, monkeypatch):
        self.walks = 0
        self.begun = trio.Event()
        self.taken = trio.Event()
        self.gate = threading.Event()
        self.gate.set()
        real_walk = Snapshots._walk_tree
        real_take = Snapshots.take_ahead

        def walk(snapshots, check_cancelled, own):
            self.walks += 1
            trees = real_walk(snapshots, check_cancelled, own)
            trio.from_thread.run_sync(self.begun.set)
            while not self.gate.wait(0.01):
                check_cancelled()
            return trees

        def take(snapshots, check_cancelled):
            real_take(snapshots, check_cancelled)
            trio.from_thread.run_sync(self.taken.set)

        monkeypatch.setattr(Snapshots, "_walk_tree", walk)
        monkeypatch.setattr(Snapshots, "take_ahead", take)


@pytest.fixture
def ahead(monkeypatch):
    return Ahead(monkeypatch)


def read_all(folder):
    """Return the contents of all files in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


async def test_the_first_command_needs_no_walk_and_can_be_undone(ahead):
    """What the user changes after the snapshot stays the user's."""
    answered = trio.Event()
    command = "echo two > a.txt; rm -r src/deep; mkdir new; echo x > new/x"
    model = ScriptedModel([pause(answered), use("run_terminal_cmd", command=command), say("Done.")])
    async with open_bench(hilum_files, hilum_shell, files=FILES, model=model) as bench:
        run = await bench.start("Work.")
        with trio.fail_after(LIMIT):
            await ahead.taken.wait()
            (bench.workspace / "src/b.txt").write_text("the user's\n")
            (bench.workspace / "mine.txt").write_text("the user's\n")
            answered.set()
            await run.wait()
        assert ahead.walks == 1
        history = bench.session.plugin(hilum_files.Changes)
        (record,) = history.records()
        found = {change.path for change in record.changes}
        assert found == {"a.txt", "src/deep", "src/deep/c.txt", "new", "new/x"}
        await history.undo("run")
        expected = FILES | {"src/b.txt": "the user's\n", "mine.txt": "the user's\n"}
        assert read_all(bench.workspace) == expected


async def test_an_edit_does_not_wait_for_the_snapshot(ahead):
    """Nor does the command after it count as the one that made it."""
    answered = trio.Event()
    ahead.gate.clear()
    model = ScriptedModel(
        [
            pause(answered),
            use("write_file", path="new.txt", content="by a tool\n"),
            use("run_terminal_cmd", command="echo two > a.txt"),
            say("Done."),
        ]
    )
    async with open_bench(hilum_files, hilum_shell, files=FILES, model=model) as bench:
        run = await bench.start("Work.")
        with trio.fail_after(LIMIT):
            await ahead.begun.wait()
            answered.set()
            await bench.wait_for(CallDone)
            assert (bench.workspace / "new.txt").exists()
            assert not ahead.taken.is_set()
            ahead.gate.set()
            await run.wait()
        history = bench.session.plugin(hilum_files.Changes)
        found = [{change.path for change in record.changes} for record in history.records()]
        assert found == [{"new.txt"}, {"a.txt"}]
        await history.undo("run")
        assert read_all(bench.workspace) == FILES


async def test_an_undo_ends_the_snapshot(ahead):
    """The next command then takes its own."""
    answered = trio.Event()
    ahead.gate.clear()
    model = ScriptedModel(
        [pause(answered), say("Done."), use("run_terminal_cmd", command="echo 2 > a.txt"), say("x")]
    )
    async with open_bench(hilum_files, hilum_shell, files=FILES, model=model) as bench:
        await bench.start("Work.")
        history = bench.session.plugin(hilum_files.Changes)
        with trio.fail_after(LIMIT):
            await ahead.begun.wait()
            assert await history.diff("session") == []
            assert not ahead.taken.is_set()
            ahead.gate.set()
            answered.set()
            await bench.wait_for(RunEnded)
            await bench.run("Work.")
        assert [{each.path for each in record.changes} for record in history.records()] == [
            {"a.txt"}
        ]


async def test_a_session_closes_while_the_snapshot_is_taken(ahead):
    ahead.gate.clear()
    with trio.fail_after(LIMIT):
        model = ScriptedModel([pause(trio.Event())])
        async with open_bench(hilum_files, hilum_shell, files=FILES, model=model) as bench:
            await bench.start("Work.")
            await ahead.begun.wait()
    assert not ahead.taken.is_set()


async def test_nothing_is_stored_where_no_command_can_run(ahead, monkeypatch):
    decided = trio.Event()
    real = changes._take_snapshot_ahead

    async def decide(*arguments):
        await real(*arguments)
        decided.set()

    monkeypatch.setattr(changes, "_take_snapshot_ahead", decide)
    model = ScriptedModel([pause(decided), say("Done.")])
    async with open_bench(
        hilum_files, hilum_shell, files=FILES, model=model, approve="readonly"
    ) as bench:
        with trio.fail_after(LIMIT):
            await bench.run("Look.")
    assert decided.is_set()
    assert ahead.walks == 0


def test_a_first_snapshot_of_many_files_can_be_cancelled_at_any_time(tmp_path):
    """A session that closes does not wait until all files are read and stored."""
    root = tmp_path / "work"
    root.mkdir()
    for number in range(300):
        (root / f"{number}.txt").write_text(str(number))
    store = ContentStore(tmp_path / "store")
    checks: list[None] = []
    walk = TreeWalk(str(root), Tree(), store, SnapshotLimits(), partial(checks.append, None))
    assert len(walk.run()) == 300
    assert len(checks) > 300 / 60
    for last in range(len(checks)):
        left = iter(range(last))
        walk = TreeWalk(str(root), Tree(), store, SnapshotLimits(), partial(next, left))
        with pytest.raises(StopIteration):
            walk.run()
    store.close()
