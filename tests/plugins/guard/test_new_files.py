"""The guard tells the project's own files from those that an agent may have written."""

import os
import subprocess
import time
from pathlib import Path

import hilum_files
import hilum_guard
import pytest
from hilum.testing import open_bench
from hilum_guard import filter_tracked, is_tracked, new_files
from hilum_guard.new_files import WrittenFiles, begin_in, is_new_file

OLD = (1_700_000_000, 1_700_000_000)


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")
        os.utime(folder / name, OLD)


def git(folder: Path, *words: str) -> None:
    user = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.com",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(["git", *user, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with four files in its index."""
    folder = tmp_path.resolve() / "repository"
    put(folder, "pkg/alpha.py", "pkg/alphabet.py", "pkg/beta.py", "sub/evil.py")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    return folder


def is_own(folder: Path, name: str, root: Path | None = None) -> bool:
    path, top = str(folder / name), str(root or folder)
    is_old = not is_new_file(path, top)
    assert is_old is not WrittenFiles(top).contains(path, os.stat(path))
    return is_old


def test_a_name_at_the_end_of_a_tracked_path_is_not_tracked(root: Path) -> None:
    put(root, "evil.py", "beta.py", "kg/beta.py")
    for name in ("evil.py", "beta.py", "kg/beta.py"):
        assert not is_own(root, name)
        assert not is_tracked(str(root / name), str(root))
    assert is_own(root, "sub/evil.py")


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_is_read(root: Path, version: str) -> None:
    git(root, "update-index", "--index-version", version)
    put(root, "pkg/gamma.py")
    for name in ("pkg/alpha.py", "pkg/alphabet.py", "pkg/beta.py"):
        assert is_own(root, name)
    assert not is_own(root, "pkg/gamma.py")


def test_a_linked_working_tree_has_an_index_of_its_own(root: Path) -> None:
    git(root, "commit", "-qm", "start")
    tree = root.parent / "tree"
    git(root, "worktree", "add", "-q", str(tree))
    put(tree, "pkg/beta.py", "fresh.py")
    assert is_own(tree, "pkg/beta.py")
    assert not is_own(tree, "fresh.py")


def test_a_workspace_may_be_a_folder_of_a_repository(root: Path) -> None:
    put(root, "pkg/fresh.py", "pkg/evil.py")
    assert is_own(root / "pkg", "beta.py")
    assert not is_own(root / "pkg", "fresh.py")
    assert not is_own(root / "pkg", "evil.py")


def test_a_submodule_is_the_projects_own_and_another_inner_repository_is_not(root: Path) -> None:
    other = root.parent / "other"
    put(other, "a.py")
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-qm", "start")
    git(root, "submodule", "add", "-q", str(other), "module")
    put(root, "module/a.py", "module/b.py")
    assert is_own(root, "module/a.py")
    assert not is_own(root, "module/b.py")
    put(root, "made/a.py")
    git(root / "made", "init", "-q")
    git(root / "made", "add", ".")
    assert not is_own(root, "made/a.py")
    # Whether it belongs to the project is unknown, so that a change of it counts as one.
    assert is_tracked(str(root / "made/a.py"), str(root))


def test_several_files_are_looked_up_at_once_as_each_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "evil.py", "pkg/fresh.py", "made/a.py")
    git(root / "made", "init", "-q")
    names = ("evil.py", "pkg/fresh.py", "pkg/beta.py", "sub/../sub/evil.py", "made/a.py", "gone.py")
    paths = [str(root / name) for name in names]
    expected = [path for path in paths if is_tracked(path, str(root))]
    assert [os.path.relpath(path, root) for path in expected] == [
        "pkg/beta.py",
        "sub/evil.py",
        "made/a.py",
    ]
    looks: list[str] = []
    read_index = new_files._read_index

    def count(top: str) -> object:
        looks.append(top)
        return read_index(top)

    monkeypatch.setattr(new_files, "_read_index", count)
    assert filter_tracked(paths * 100, str(root)) == expected * 100
    assert len(looks) < 10
    assert filter_tracked([], str(root)) == []


def test_no_file_is_the_projects_own_if_the_index_cannot_be_read(root: Path) -> None:
    git(root, "update-index", "--split-index")
    assert not is_own(root, "pkg/beta.py")
    assert is_tracked(str(root / "pkg/beta.py"), str(root))
    (root / ".git" / "index").write_bytes(b"DIRC" + bytes(100))
    assert not is_own(root, "pkg/beta.py")
    (root / ".git" / "index").unlink()
    assert not is_own(root, "pkg/beta.py")


def test_without_a_repository_old_files_are_the_users_own(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    put(folder, "a.py")
    assert is_own(folder, "a.py")
    os.utime(folder / "a.py")
    assert not is_own(folder, "a.py")


def test_files_are_new_since_the_first_session_in_their_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project was cloned after the program started, which then opened a session in it."""
    monkeypatch.setattr(new_files, "_begun", {})
    (root / "pkg/alpha.py").touch()
    assert not is_own(root, "pkg/alpha.py")
    begun = (root / "pkg/alpha.py").stat().st_mtime + 1
    with monkeypatch.context() as patch:
        patch.setattr(new_files.time, "time", lambda: begun)
        begin_in(str(root))
    assert is_own(root, "pkg/alpha.py")
    # An agent writes a file; another session in the same folder follows.
    os.utime(root / "pkg/beta.py", (begun + 1, begun + 1))
    with monkeypatch.context() as patch:
        patch.setattr(new_files.time, "time", lambda: begun + 2)
        begin_in(str(root))
    assert not is_own(root, "pkg/beta.py")
    # A file outside is new since the program started.
    put(root.parent, "outside.py")
    (root.parent / "outside.py").touch()
    assert not is_own(root.parent, "outside.py", root)


def test_an_agent_in_a_folder_above_may_have_written_a_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_files, "_begun", {})
    (root / "pkg/alpha.py").touch()
    written = (root / "pkg/alpha.py").stat().st_mtime
    for folder, at in ((root.parent, written - 1), (root, written + 1)):
        with monkeypatch.context() as patch:
            patch.setattr(new_files.time, "time", lambda at=at: at)
            begin_in(str(folder))
    assert not is_own(root, "pkg/alpha.py")


async def test_a_session_begins_in_its_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project was created after this program started, and before the session."""
    monkeypatch.setattr(new_files, "_begun", {})
    (tmp_path / "workspace").mkdir()
    git(tmp_path / "workspace", "init", "-q")
    (tmp_path / "workspace/own.py").write_text("x\n")
    git(tmp_path / "workspace", "add", ".")
    begun = time.time() - 1
    os.utime(tmp_path / "workspace/own.py", (begun, begun))
    async with open_bench(hilum_guard, hilum_files, folder=tmp_path, approve="auto") as bench:
        root = str(bench.workspace)
        assert not is_new_file(f"{root}/own.py", root)
        await bench.call("write_file", path="made.py", content="x\n")
        git(bench.workspace, "add", ".")
        assert is_new_file(f"{root}/made.py", root)
