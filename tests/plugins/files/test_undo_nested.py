"""An undo of deeply nested folders examines each folder a fixed number of times, and follows no link."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hilum_files
import hilum_shell
import pytest
from hilum import ToolError, Workspace
from hilum.testing import open_bench
from hilum_files.journal.held_folder import HeldFolder

NEST = """
import os
for _ in range({depth}):
    os.mkdir("D")
    os.chdir("D")
    open("f", "w").write("x")
"""


@pytest.fixture
def count_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many paths were opened or examined since the previous call."""
    count = 0

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            return function(*args, **options)

        return call

    for name in ("lstat", "stat", "open", "mkdir", "readlink"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))

    def read() -> int:
        nonlocal count
        found, count = count, 0
        return found

    return read


async def test_the_steps_of_an_undo_grow_with_the_number_of_folders(
    count_calls: Callable[[], int],
) -> None:
    calls: list[tuple[int, int]] = []
    for depth in (40, 160):
        files = {"nest.py": NEST.format(depth=depth)}
        async with open_bench(hilum_files, hilum_shell, files=files) as bench:
            await bench.call("run_terminal_cmd", command="python3 nest.py")
            changes = bench.session.plugin(hilum_files.Changes)
            assert changes is not None
            deepest = bench.workspace / "/".join(["D"] * depth)
            assert deepest.is_dir()
            count_calls()
            await changes.undo()
            undo = count_calls()
            assert not (bench.workspace / "D").exists()
            await changes.undo("undo")
            calls.append((undo, count_calls()))
            assert deepest.is_dir()
            assert (deepest / "f").read_text() == "x"
    (few_undo, few_redo), (many_undo, many_redo) = calls
    # Four times as many folders, and not sixteen times as many steps.
    assert many_undo < 5 * few_undo
    assert many_redo < 5 * few_redo


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    return Workspace(tmp_path)


def test_each_folder_is_opened_from_the_one_before(workspace: Workspace) -> None:
    held = HeldFolder(workspace)
    for name in ("a/b/c/x", "a/b/c", "a/b/x", "d/x", "x", "a/b/c/x", "new/er/x"):
        with held.open(name, make=True) as place:
            assert place.folder is not None
            expected = (workspace.root / name).parent.stat()
            assert os.fstat(place.folder).st_ino == expected.st_ino
            assert place.name == os.path.basename(name)
    held.close()


@pytest.mark.parametrize(
    ("moved", "following"),
    [
        *(("a", name) for name in ("a/y", "a/b/y", "a/b/c/y", "a/b/c/d/y")),
        *(("a/b", name) for name in ("a/b/y", "a/b/c/y", "a/b/c/d/y")),
        *(("a/b/c", name) for name in ("a/b/c/y", "a/b/c/d/y")),
    ],
)
def test_a_link_in_place_of_a_folder_is_not_followed(
    workspace: Workspace, moved: str, following: str
) -> None:
    """Even if it leads to the same folder, which is elsewhere now."""
    held = HeldFolder(workspace)
    (workspace.root / "a/b/c/d").mkdir()
    with held.open("a/b/c/x"):
        pass
    (workspace.root / moved).rename(workspace.root / "elsewhere")
    (workspace.root / moved).symlink_to(workspace.root / "elsewhere")
    with pytest.raises(ToolError, match="is now a link"), held.open(following):
        pass
    held.close()


def test_an_error_names_the_path(workspace: Workspace) -> None:
    held = HeldFolder(workspace)
    with held.open("a/b/c/x"):
        pass
    with pytest.raises(OSError, match="a/b/y"), held.open("a/b/y") as place:
        os.unlink(place.name, dir_fd=place.folder)
    held.close()
