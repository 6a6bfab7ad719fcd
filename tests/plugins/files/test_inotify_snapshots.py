"""When the workspace is walked, and when hilum checks only what inotify has named."""

import os
import signal
import struct
import sys
import time
from pathlib import Path

import hilum_files
import hilum_shell
import hilum_store
import pytest
import trio
from hilum.events import PluginEvent
from hilum.testing import open_bench, say, use
from hilum_files.journal import command_tracker, folder_watch
from hilum_files.journal.command_tracker import CommandTracker
from hilum_files.journal.folder_watch import FolderWatch, find_file_system
from hilum_files.journal.records import CHANGED
from hilum_files.journal.saved_trees import SavedTree, read_tree
from hilum_files.journal.snapshots import Snapshots
from hilum_files.journal.tree import TreeWalk
from hilum_files.journal.tree_entries import Node, Tree, TreeEntry

pytestmark = pytest.mark.skipif(
    find_file_system("/tmp") not in folder_watch.LOCAL_FILE_SYSTEMS,
    reason="inotify is not used on this file system",
)
FILES = {"a.txt": "one\n", "src/b.txt": "b\n", "src/deep/c.txt": "c\n"}


def changes_of(bench) -> hilum_files.Changes:
    return bench.session.plugin(hilum_files.Changes)


def changed(bench) -> list[set[str]]:
    """The paths of each record."""
    return [{each.path for each in record.changes} for record in changes_of(bench).records()]


def ask(command: str, **arguments: object) -> object:
    return use("run_terminal_cmd", command=command, **arguments)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Snapshots]:
    """The walks of a whole workspace that a command or its result waits for."""
    walked: list[Snapshots] = []
    real = Snapshots._walk

    def walk(self, *arguments):
        walked.append(self)
        return real(self, *arguments)

    monkeypatch.setattr(Snapshots, "_walk", walk)
    return walked


# --- which snapshots walk -------------------------------------------------------------------------


async def test_a_command_that_changes_nothing_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a task nor a thread is needed; what it changes is found as ever."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        bench.model.next(ask("true"), say("Done."))
        await bench.run("Work.")
        waits: list[str] = []
        for name in ("_begin_command", "_begin_process", "_end_command"):
            real = getattr(CommandTracker, name)

            async def wait(self, *arguments, name=name, real=real):
                waits.append(name)
                await real(self, *arguments)

            monkeypatch.setattr(CommandTracker, name, wait)
        bench.model.next(ask("true"), ask("echo two > a.txt"), say("Done."))
        await bench.run("Work.")
        assert waits == ["_end_command"]
        assert changed(bench) == [{"a.txt"}]


async def test_only_the_first_snapshot_is_a_walk(walks: list[Snapshots]) -> None:
    """Changes in old, new and renamed folders are found without a walk."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        bench.model.next(
            ask("echo two > a.txt; rm src/b.txt"),
            ask("mkdir -p new/deep; echo 1 > new/deep/x"),
            ask("echo 2 > new/deep/x; mv new moved"),
            ask("true"),
            ask("echo 3 > moved/deep/x; mv src/deep deeper; echo 4 > deeper/c.txt"),
            say("Done."),
        )
        await bench.run("Work.")
        await changes_of(bench).confirm()
        assert len(walks) == 1
        assert changed(bench) == [
            {"a.txt", "src/b.txt"},
            {"new", "new/deep", "new/deep/x"},
            {"new", "new/deep", "new/deep/x", "moved", "moved/deep", "moved/deep/x"},
            {"moved/deep/x", "src/deep", "src/deep/c.txt", "deeper", "deeper/c.txt"},
        ]
        await changes_of(bench).undo("run")
        assert {p.name for p in bench.workspace.iterdir()} == {"a.txt", "src"}
        assert (bench.workspace / "src/deep/c.txt").read_text() == "c\n"


async def check_each_snapshot_walks(walks: list[Snapshots], **settings: object) -> None:
    async with open_bench(hilum_files, hilum_shell, files=FILES, settings=settings) as bench:
        for number in range(3):
            await bench.call("run_terminal_cmd", command=f"echo {number} > src/b.txt")
            assert len(walks) == 2 * (number + 1)
        assert changed(bench) == [{"src/b.txt"}] * 3


async def test_without_incremental_snapshots_each_one_walks(walks: list[Snapshots]) -> None:
    """The setting."""
    await check_each_snapshot_walks(walks, **{"files.incremental_snapshots": False})


async def test_where_others_change_files_unseen_each_snapshot_walks(
    walks: list[Snapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network and user-space file systems."""
    monkeypatch.setattr(folder_watch, "LOCAL_FILE_SYSTEMS", frozenset())
    await check_each_snapshot_walks(walks)


async def test_at_the_limit_of_watches_each_snapshot_walks(
    walks: list[Snapshots], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Half of the user's watches are left for other programs."""
    limit = tmp_path / "max_user_watches"
    limit.write_text("5\n")
    monkeypatch.setattr(folder_watch, "MAX_WATCHES_FILE", str(limit))
    await check_each_snapshot_walks(walks)


async def test_while_a_service_runs_each_snapshot_walks(walks: list[Snapshots]) -> None:
    """A mapping of a running process can change a file without an event."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command="true")
        await bench.call("run_terminal_cmd", command="exec sleep 1000", background=True)
        await changes_of(bench).confirm()
        before = len(walks)
        await bench.call("run_terminal_cmd", command="echo 1 > src/b.txt")
        await changes_of(bench).confirm()
        assert len(walks) == before + 2
        await bench.call("stop_service", service="s1")
        await changes_of(bench).confirm()
        before = len(walks)
        await bench.call("run_terminal_cmd", command="echo 2 > src/b.txt")
        await changes_of(bench).confirm()
        assert len(walks) == before
        assert changed(bench) == [{"src/b.txt"}] * 2


async def test_a_full_queue_of_events_is_noticed(walks: list[Snapshots]) -> None:
    """16,384 events fit; what does not is found by a walk."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command="true")
        await changes_of(bench).confirm()
        before = len(walks)
        command = "for ((i = 0; i < 12000; i++)); do : > noise; done; rm noise; echo 2 > src/b.txt"
        await bench.call("run_terminal_cmd", command=command)
        await changes_of(bench).confirm()
        assert len(walks) == before + 1
        assert changed(bench) == [{"src/b.txt"}]


async def test_a_second_name_of_a_file_is_noticed(walks: list[Snapshots]) -> None:
    """What is written under one name has changed under the other."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command="true")
        await changes_of(bench).confirm()
        await bench.call("run_terminal_cmd", command="ln a.txt second")
        await changes_of(bench).confirm()
        before = len(walks)
        await bench.call("run_terminal_cmd", command="echo more >> second")
        await changes_of(bench).confirm()
        assert len(walks) == before
        assert changed(bench) == [{"second"}, {"a.txt", "second"}]


async def test_a_write_through_a_name_in_a_folder_that_is_left_out_is_found_later() -> None:
    """No event names it; it belongs to the calls since the last walk."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        bench.model.next(
            ask("mkdir .venv; ln a.txt .venv/a; echo more >> .venv/a; echo 1 > new"),
            ask("true"),
            say("Done."),
        )
        await bench.run("Work.")
        await changes_of(bench).confirm()
        records = changes_of(bench).records("session")
        assert [{each.path for each in record.changes} for record in records] == [
            {".venv", "new"},
            {"a.txt"},
        ]
        missed = records[-1]
        assert missed.found_late
        assert missed.others == (records[0].call,)
        await changes_of(bench).undo("run")
        assert (bench.workspace / "a.txt").read_text() == "one\n"
        assert not (bench.workspace / "new").exists()


async def test_what_the_user_changes_during_a_late_walk_is_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changes before, during and after the walk are attributed to nobody."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        real = TreeWalk.run

        def run(walk: TreeWalk) -> Tree:
            (bench.workspace / "src/b.txt").write_text("by the user\n")
            (bench.workspace / "mine/deep").mkdir(parents=True)
            (bench.workspace / "mine/deep/x").write_text("by the user\n")
            tree = real(walk)
            (bench.workspace / "a.txt").write_text("by the user\n")
            (bench.workspace / "late").write_text("by the user\n")
            return tree

        await bench.call("run_terminal_cmd", command="echo 1 > new")
        with monkeypatch.context() as patch:
            patch.setattr(TreeWalk, "run", run)
            await changes_of(bench).confirm()
        assert (bench.workspace / "late").exists()
        await bench.call("run_terminal_cmd", command="echo 2 > new")
        assert changed(bench) == [{"new"}, {"new"}]


async def test_what_the_user_changes_while_the_model_thinks_is_the_users() -> None:
    """The same file may change again in the next command: only this change is undone."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:

        def think(request: object) -> object:
            (bench.workspace / "a.txt").write_text("by the user\n")
            return ask("echo by a command >> a.txt")

        bench.model.next(ask("echo 1 > new"), think, say("Done."))
        await bench.run("Work.")
        assert changed(bench) == [{"new"}, {"a.txt"}]
        await changes_of(bench).undo("run")
        assert (bench.workspace / "a.txt").read_text() == "by the user\n"


async def test_the_workspace_is_walked_while_the_model_thinks() -> None:
    """What no event named then belongs to the one command before."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:

        async def think(request: object) -> object:
            await bench.wait_for(PluginEvent, lambda event: event.data.get("found_late"))
            return ask("echo 2 > new")

        hidden = "mkdir .venv; ln a.txt .venv/a; echo more >> .venv/a; echo 1 > new"
        bench.model.next(ask(hidden), think, say("Done."))
        await bench.run("Work.")
        first, late, second = changes_of(bench).records("session")
        assert {each.path for each in late.changes} == {"a.txt"}
        assert late.call == first.call != second.call
        assert late.others == ()


async def test_a_walk_before_a_command_does_not_hide_what_no_event_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processes appear before the late walk: what the user changed is told from what was missed."""
    monkeypatch.setattr(command_tracker, "CONFIRM_DELAY", 1_000)
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:

        def think(request: object) -> object:
            (bench.workspace / "src/b.txt").write_text("by the user\n")
            monkeypatch.setattr(changes_of(bench)._snapshots, "_may_miss", lambda: True)
            return ask("echo 2 > new")

        hidden = "mkdir .venv; ln a.txt .venv/a; echo more >> .venv/a; echo 1 > new"
        bench.model.next(ask(hidden), think, say("Done."))
        await bench.run("Work.")
        first, late, second = changes_of(bench).records("session")
        assert {each.path for each in late.changes} == {"a.txt"}
        assert late.found_late
        assert late.call == first.call != second.call
        assert {each.path for each in second.changes} == {"new"}


async def test_a_command_does_not_wait_for_a_late_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk ends, and the next one comes after the command."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        walking, ended = trio.Event(), trio.Event()
        real = TreeWalk.run

        def run(walk: TreeWalk) -> Tree:
            if not walking.is_set():
                trio.from_thread.run_sync(walking.set)
                try:
                    while True:
                        walk._check_cancelled()
                        time.sleep(0.001)
                finally:
                    trio.from_thread.run_sync(ended.set)
            return real(walk)

        await bench.call("run_terminal_cmd", command="echo 1 > new")
        with monkeypatch.context() as patch:
            patch.setattr(TreeWalk, "run", run)
            with trio.fail_after(20):
                await walking.wait()
                await bench.call("run_terminal_cmd", command="echo 2 > new; echo x > src/b.txt")
                await ended.wait()
        assert changed(bench) == [{"new"}, {"new", "src/b.txt"}]


# --- watches --------------------------------------------------------------------------------------


def watch_all(root: Path) -> FolderWatch:
    watch = FolderWatch(str(root))
    watch.begin_walk()
    for folder, _, _ in os.walk(root):
        prefix = os.path.relpath(folder, root)
        watch.add("" if prefix == "." else f"{prefix}/")
    watch.end_walk()
    assert watch.reliable
    return watch


def test_a_workspace_that_is_moved_or_replaced_is_walked(tmp_path: Path) -> None:
    """Also if a folder above it is moved, which no watch reports."""
    root = tmp_path / "above/root"
    root.mkdir(parents=True)
    for moved in (root, root.parent):
        watch = watch_all(root)
        moved.rename(tmp_path / f"away from {moved.name}")
        root.mkdir(parents=True)
        watch.collect()
        assert not watch.reliable
        watch.close()


def test_one_folder_under_two_names_is_walked(tmp_path: Path) -> None:
    """Events would name only one of the two, as with bind mounts."""
    (tmp_path / "a").mkdir()
    watch = watch_all(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    watch.add("b/")
    assert not watch.reliable
    watch.close()


def test_a_folder_that_was_moved_away_is_no_longer_watched(tmp_path: Path) -> None:
    """What happens there is no change of the workspace."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    watch = watch_all(root)
    (root / "a").rename(tmp_path / "outside")
    watch.collect()
    assert set(watch.named) == {"a"}
    watch.drop(["a/"])
    watch.end_walk()
    watch.named.clear()
    (tmp_path / "outside/x").touch()
    watch.collect()
    assert watch.named == {}
    assert watch.reliable
    watch.close()


def test_names_that_are_not_utf_8_are_kept(tmp_path: Path) -> None:
    """As the names in a walk."""
    watch = watch_all(tmp_path)
    path = os.fsencode(tmp_path) + b"/\xff\n"
    os.mkdir(path)
    watch.collect()
    assert watch.named == {os.fsdecode(b"\xff\n"): True}
    watch.close()
    assert not watch.reliable
    watch.collect()


def test_the_type_of_a_file_system_is_that_of_the_nearest_mount() -> None:
    """``/proc`` is its own, everything below it too."""
    assert find_file_system("/proc/self") == "proc"
    assert find_file_system("/") not in ("", "proc")


# --- on disk --------------------------------------------------------------------------------------


def tree_of(**entries: int) -> Tree:
    tree = Tree()
    for name, mode in entries.items():
        tree[name] = TreeEntry(Node("file", mode, "h"), struct.pack("<2Q", 1, mode))
    return tree


def test_a_saved_tree_has_what_was_appended(tmp_path: Path) -> None:
    """Also after hilum was ended in the middle of the last part."""
    saved = SavedTree(tmp_path, "s")
    tree = tree_of(a=1, b=2)
    saved.write(tree)
    tree.update(tree_of(b=3, c=4))
    del tree["a"]
    saved.update({"a", "b", "c"}, tree)
    assert saved.read() == tree
    whole = (tmp_path / "s").read_bytes()
    larger = Tree({**tree, **tree_of(d=5)})
    saved.update({"d"}, larger)
    assert read_tree(tmp_path / "s") == larger
    longer = (tmp_path / "s").read_bytes()
    for length in range(len(whole), len(longer)):
        (tmp_path / "s").write_bytes(longer[:length])
        assert read_tree(tmp_path / "s") == tree
    # Another process does not append to what may be incomplete.
    again = SavedTree(tmp_path, "s")
    again.update({"e"}, tree_of(e=1))
    assert again.read() == tree_of(e=1)


def test_a_saved_tree_does_not_grow_for_ever(tmp_path: Path) -> None:
    """It is written anew when much was appended."""
    saved = SavedTree(tmp_path, "s")
    tree = tree_of(a=1)
    saved.write(tree)
    sizes = []
    for number in range(2_500):
        tree = tree_of(a=number)
        saved.update({"a"}, tree)
        sizes.append((tmp_path / "s").stat().st_size)
    assert saved.read() == tree
    assert max(sizes) < 60_000


# --- crashes --------------------------------------------------------------------------------------

# A session that is killed in the second of three commands, or in a look beside it.
DYING = """
import os, signal, sys
from pathlib import Path
import hilum_files, hilum_shell, hilum_store, trio
from hilum.testing import open_bench, say, use
from hilum_files.journal import saved_trees
from hilum_files.journal.changes import Changes
from hilum_files.journal.snapshots import Snapshots

folder, where = Path(sys.argv[1]), sys.argv[2]
calls = {}

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_at(owner, name, number, *, after):
    real = getattr(owner, name)
    def replaced(*arguments, **options):
        calls[name] = calls.get(name, 0) + 1
        if calls[name] < number:
            return real(*arguments, **options)
        if after:
            real(*arguments, **options)
        die()
    setattr(owner, name, replaced)

if where == "look":
    die_at(Snapshots, "find_changes", 2, after=False)
elif where == "looked":
    die_at(Snapshots, "find_changes", 2, after=True)
elif where == "saved":
    die_at(saved_trees.SavedTree, "update", 1, after=True)
elif where == "appending":
    real = saved_trees._make_part
    def make_part(data):
        calls["part"] = calls.get("part", 0) + 1
        if calls["part"] == 2:
            with open(next(folder.glob("data/objects/trees/*/*")), "ab") as file:
                file.write(real(data)[:20])
            die()
        return real(data)
    saved_trees._make_part = make_part
elif where == "closing":
    die_at(Snapshots, "find_missed_changes", 1, after=False)

async def main():
    files = {"a.txt": "one\\n", "b.txt": "b\\n", "c.txt": "c\\n"}
    async with open_bench(hilum_files, hilum_shell, hilum_store, folder=folder, files=files) as bench:
        print(bench.session.id, flush=True)
        bench.model.next(
            use("run_terminal_cmd", command="echo 1 >> a.txt; mkdir d; mv b.txt d"),
            use("run_terminal_cmd", command="echo 2 >> a.txt; mv d e"),
            use("run_terminal_cmd", command="rm c.txt; echo 3 > e/b.txt"),
            say("Done."),
        )
        await bench.run("Work.")
        await bench.session.plugin(Changes).confirm()

trio.run(main)
"""


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("where", ["look", "appending", "looked", "saved", "closing"])
async def test_a_crash_beside_a_look_loses_no_change(tmp_path: Path, where: str) -> None:
    """hilum is killed; opened again, an undo of everything restores the first state."""
    argv = [sys.executable, "-c", DYING, str(tmp_path), where]
    died = await trio.run_process(argv, capture_stdout=True, check=False)
    assert died.returncode == -signal.SIGKILL
    session = died.stdout.decode().split()[0]
    async with open_bench(
        hilum_files, hilum_shell, hilum_store, folder=tmp_path, resume=session
    ) as bench:
        while changed(bench):
            await changes_of(bench).undo("call")
        found = {path.name: path.read_text() for path in bench.workspace.iterdir()}
        assert found == {"a.txt": "one\n", "b.txt": "b\n", "c.txt": "c\n"}
        events = [each for each in bench.of(PluginEvent) if each.name == CHANGED]
        assert events
