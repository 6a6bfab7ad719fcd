"""Undo where a command replaced a folder with a link, or a link with a folder."""

import stat
import sys
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
from hilum import ToolError
from hilum.errors import E_STALE
from hilum.testing import Bench, open_bench
from hilum_files.journal.content_store import hash_content
from hilum_files.journal.records import Change
from hilum_files.journal.tracked_workspace import find_made_changes
from hilum_files.journal.tree_entries import Node

sys.path.insert(0, str(Path(__file__).parent))
from random_work import held

FILES = {"sub/a": "a\n", "sub/deep/b": "b\n", "other/a": "other\n"}
TO_LINK = [
    "rm -rf sub; ln -s other sub",
    "rm -rf sub; ln -s /etc sub",
    "rm -rf sub; ln -s sub sub",
    "mv sub real; ln -s real sub; echo more >> sub/a; rm sub/deep/b",
    "mv sub/deep real; ln -s ../real sub/deep; mv sub moved; ln -s moved sub",
    "mv sub moved; ln -s moved sub; mv moved/deep real; ln -s ../real moved/deep",
]
TO_FOLDER = [
    "rm link; mkdir link; echo new > link/a",
    "rm link; cp -r sub link; rm -r sub; ln -s link sub",
]


def undoing(bench: Bench) -> hilum_files.Changes:
    changes = bench.session.plugin(hilum_files.Changes)
    assert changes is not None
    return changes


@pytest.mark.parametrize("command", TO_LINK + TO_FOLDER)
async def test_folders_and_links_that_replaced_each_other_are_undone_exactly(command: str) -> None:
    """So is the undo, as often as one likes; what the link shows is not changed."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        (bench.workspace / "link").symlink_to("sub")
        before = held(bench.workspace)
        await bench.call("run_terminal_cmd", command=command)
        after = held(bench.workspace)
        assert after != before
        for _ in range(2):
            await undoing(bench).undo()
            assert held(bench.workspace) == before
            await undoing(bench).undo("undo")
            assert held(bench.workspace) == after


async def test_runs_before_the_one_with_the_link_are_reached() -> None:
    """Each run wrote through the link of the last one, or replaced it."""
    commands = [
        "mv sub real; ln -s real sub",
        "echo 2 >> sub/a; echo new > sub/new",
        "rm sub; mkdir sub; echo 3 > sub/a",
        "rm -r sub; ln -s other sub; echo 4 >> sub/a",
    ]
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        states = [held(bench.workspace)]
        for command in commands:
            await bench.call("run_terminal_cmd", command=command)
            states.append(held(bench.workspace))
        for state in states[-2::-1]:
            await undoing(bench).undo()
            assert held(bench.workspace) == state
        for state in states[1:]:
            await undoing(bench).undo("undo")
            assert held(bench.workspace) == state


async def test_permissions_behind_the_link_stay(tmp_path: Path) -> None:
    """An undo makes folders writable for a moment, and none that is below the link."""
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep").chmod(0o500)
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command=f"rm -rf sub; ln -s {outside} sub")
        await undoing(bench).undo()
        assert (bench.workspace / "sub/deep/b").read_text() == "b\n"
        assert stat.S_IMODE((outside / "deep").stat().st_mode) == 0o500


async def test_the_only_copy_stays_if_its_place_cannot_be_restored() -> None:
    """Somebody replaced the link: nothing below it can be restored, so nothing that was moved away
    is deleted.
    """
    command = "mv sub real; ln -s real sub; echo new > new"
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command=command)
        (bench.workspace / "sub").unlink()
        (bench.workspace / "sub").symlink_to("other")
        before = held(bench.workspace)
        with pytest.raises(ToolError) as caught:
            await undoing(bench).undo()
        assert caught.value.code == E_STALE
        assert "real/a: it is the only copy of sub/a, which cannot be" in caught.value.message
        assert held(bench.workspace) == before
        plan = await undoing(bench).undo(keep_going=True)
        assert {"sub", "sub/a", "sub/deep/b", "real/a", "real/deep/b"} <= plan.conflicts.keys()
        del before[b"new"]
        assert held(bench.workspace) == before


async def test_an_empty_file_is_no_copy_of_anything() -> None:
    """It is deleted, although an empty file elsewhere cannot be restored."""
    files = {"sub/empty": "", **FILES}
    async with open_bench(hilum_files, hilum_shell, files=files) as bench:
        await bench.call("run_terminal_cmd", command="rm -r sub; ln -s other sub; touch new")
        (bench.workspace / "sub").unlink()
        (bench.workspace / "sub").symlink_to("/etc")
        await undoing(bench).undo(keep_going=True)
        assert not (bench.workspace / "new").exists()


async def test_a_folder_with_other_files_is_not_replaced() -> None:
    """They are named before anything is done; --keep-going does the rest."""
    command = "rm link; mkdir -p link/in; echo new > link/in/a; echo 2 > other/a"
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        (bench.workspace / "link").symlink_to("sub")
        await bench.call("run_terminal_cmd", command=command)
        (bench.workspace / "link/in/mine").write_text("mine\n")
        before = held(bench.workspace)
        with pytest.raises(ToolError) as caught:
            await undoing(bench).undo()
        assert "link: other files are in it" in caught.value.message
        assert held(bench.workspace) == before
        await undoing(bench).undo(keep_going=True)
        assert (bench.workspace / "other/a").read_text() == "other\n"
        assert (bench.workspace / "link/in/mine").read_text() == "mine\n"
        assert not (bench.workspace / "link/in/a").exists()


async def test_nothing_is_created_below_what_is_no_folder() -> None:
    """Somebody replaced the folder with a file: it is named; --keep-going does the rest."""
    async with open_bench(hilum_files, hilum_shell, files=FILES) as bench:
        await bench.call("run_terminal_cmd", command="rm -r sub/deep; echo 2 > other/a")
        (bench.workspace / "sub/a").unlink()
        (bench.workspace / "sub").rmdir()
        (bench.workspace / "sub").write_text("mine\n")
        with pytest.raises(ToolError) as caught:
            await undoing(bench).undo()
        assert "sub/deep/b: sub is not a folder" in caught.value.message
        assert (bench.workspace / "other/a").read_text() == "2\n"
        await undoing(bench).undo(keep_going=True)
        assert (bench.workspace / "other/a").read_text() == "other\n"
        assert (bench.workspace / "sub").read_text() == "mine\n"


def test_what_a_link_shows_does_not_count_as_made(tmp_path: Path) -> None:
    """After a crash, a change below a link was made only if it deleted what was there."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("a\n")
    (tmp_path / "sub").symlink_to("real")
    node = Node("file", 0o644, hash_content(b"a\n"))
    restored = Change("sub/a", None, node)
    deleted = Change("sub/a", node, None)
    assert find_made_changes(tmp_path, [restored], include_doubtful=False) == ()
    assert find_made_changes(tmp_path, [deleted], include_doubtful=False) == (deleted,)
