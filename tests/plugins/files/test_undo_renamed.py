"""Undo of what a command wrote and the guard renamed, because other programs would execute it."""

import sys
from pathlib import Path

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.testing import Bench, open_bench
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.records import CHANGED, INERT, Change, Record
from hilum_files.journal.tree_entries import Node
from hilum_guard.sandbox import sandbox_probe

sys.path.insert(0, str(Path(__file__).parent))
from random_work import held

COMMAND = "mkdir -p d/.vscode e; echo x > d/.vscode/tasks.json; echo y > e/.envrc; echo z > z.txt"


def undoing(bench: Bench) -> hilum_files.Changes:
    changes = bench.session.plugin(hilum_files.Changes)
    assert changes is not None
    return changes


def rename(bench: Bench, *names: str) -> None:
    """Rename files and say so, as the guard does."""
    pairs = []
    for name in names:
        old = bench.workspace.resolve() / name
        new = old.rename(f"{old}.quarantined")
        pairs.append([str(old), str(new)])
    bench.session.note("guard.undone", say="", what=[], renamed=pairs)


@pytest.mark.parametrize("runs_more", [False, True])
async def test_renamed_files_are_undone_with_the_call_that_wrote_them(runs_more: bool) -> None:
    """So is the undo; a later command has nothing to do with it."""
    async with open_bench(hilum_files, hilum_shell, files={"e/a.txt": "a\n"}) as bench:
        before = held(bench.workspace)
        await bench.call("run_terminal_cmd", command=COMMAND)
        rename(bench, "d/.vscode", "e/.envrc")
        if runs_more:
            await bench.call("run_terminal_cmd", command="echo more > more.txt")
            await undoing(bench).undo()
        after = held(bench.workspace)
        for _ in range(2):
            await undoing(bench).undo()
            assert held(bench.workspace) == before
            await undoing(bench).undo("undo")
            assert held(bench.workspace) == after


async def test_what_the_session_did_not_write_is_not_its_change() -> None:
    """A file of the user stays renamed, and stays where it is."""
    async with open_bench(hilum_files, hilum_shell, files={"e/.envrc": "mine\n"}) as bench:
        await bench.call("run_terminal_cmd", command="echo z > z.txt")
        rename(bench, "e/.envrc")
        await undoing(bench).undo()
        assert (bench.workspace / "e/.envrc.quarantined").read_text() == "mine\n"
        assert not (bench.workspace / "z.txt").exists()


@pytest.mark.parametrize("is_early", [False, True])
def test_a_rename_is_recorded_once_in_either_order(is_early: bool) -> None:
    """Its event may precede the record of the command, and a later snapshot may find it again."""
    node = Node("file", 0o644, "hash")
    written = Record(id="a", what="one", call="1", changes=(Change("x/.envrc", None, node),))
    moved = (Change("x/.envrc", node, None), Change("x/.envrc.quarantined", None, node))
    found = Record(id="b", what="two", call="2", changes=(*moved, Change("y", None, node)))
    ledger = Ledger(root="/proj")
    renamed = written.to_event(INERT)
    renamed.data.clear()
    renamed.data["renamed"] = [["/proj/x/.envrc", "/proj/x/.envrc.quarantined"]]
    first = (
        [renamed, written.to_event(CHANGED)] if is_early else [written.to_event(CHANGED), renamed]
    )
    for event in [*first, found.to_event(CHANGED)]:
        ledger.apply(event)
    records = list(ledger.records.values())
    assert [record.changes for record in records] == [
        written.changes,
        moved,
        (Change("y", None, node),),
    ]
    assert records[1].call == "1"


async def test_what_the_guard_renames_is_undone(tmp_path: Path) -> None:
    """With the guard itself: the tree is what it was."""
    if sandbox_probe.probe().by != "bubblewrap":
        pytest.skip("no bubblewrap here")
    plugins = (hilum_guard, hilum_shell, hilum_files)
    async with open_bench(*plugins, folder=tmp_path, approve="auto") as bench:
        (bench.workspace / "d").mkdir()
        (bench.workspace / "make.py").write_text(
            "import os\nos.mkdir('d/.vscode')\nopen('d/.vscode/tasks.json', 'w').write('x')\n"
        )
        before = held(bench.workspace)
        await bench.call("run_terminal_cmd", command="python3 make.py")
        await bench.call("run_terminal_cmd", command="true")
        assert any(b".quarantined" in path for path in held(bench.workspace))
        await undoing(bench).undo()
        now = held(bench.workspace)
        assert {path for path in now if path.startswith(b"d/")} == set()
        assert before.items() <= now.items()
