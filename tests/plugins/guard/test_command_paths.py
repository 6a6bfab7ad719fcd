"""Sandboxed commands see another folder as ``/tmp``: files are found where the commands find them."""

import os
from pathlib import Path

import pytest
from hilum_guard import as_seen_by_commands, is_new_file, judge_command, locate

NAME = "hilum-command-paths"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "seen"
    (folder / NAME / "sub").mkdir(parents=True)
    (folder / NAME / "a.sh").write_text("git push\n")
    (folder / NAME / "empty").touch()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    (root / "b.sh").write_text("true\n")
    return root


def find(place: Path, workspace: Path, path: str) -> str:
    with as_seen_by_commands(str(place), str(workspace)):
        return locate(path)


def test_a_file_below_tmp_is_in_the_folder_that_commands_see(place: Path, workspace: Path) -> None:
    assert find(place, workspace, f"/tmp/{NAME}/a.sh") == f"{place}/{NAME}/a.sh"
    assert find(place, workspace, f"/tmp/{NAME}/none.sh") == f"{place}/{NAME}/none.sh"
    assert locate(f"/tmp/{NAME}/a.sh") == f"/tmp/{NAME}/a.sh"
    with as_seen_by_commands("", str(workspace)):
        assert locate(f"/tmp/{NAME}/a.sh") == f"/tmp/{NAME}/a.sh"


def test_links_lead_where_commands_see_them_lead(place: Path, workspace: Path) -> None:
    (place / NAME / "file").symlink_to("a.sh")
    (place / NAME / "absolute").symlink_to(f"/tmp/{NAME}/file")
    (place / "folder").symlink_to(f"/tmp/{NAME}")
    (place / NAME / "inside").symlink_to(workspace / "b.sh")
    (place / NAME / "loop").symlink_to("loop")
    (workspace / "link.sh").symlink_to(f"/tmp/{NAME}/a.sh")
    (workspace / "links").symlink_to(f"/tmp/{NAME}")
    wanted = f"{place}/{NAME}/a.sh"
    for path in (f"/tmp/{NAME}/file", f"/tmp/{NAME}/absolute", "/tmp/folder/a.sh"):
        assert find(place, workspace, path) == wanted
    for path in (workspace / "link.sh", workspace / "links/a.sh"):
        assert find(place, workspace, str(path)) == wanted
    assert find(place, workspace, f"/tmp/{NAME}/inside") == str(workspace / "b.sh")
    assert find(place, workspace, f"/tmp/{NAME}/loop") == f"/tmp/{NAME}/loop"


def test_the_workspace_is_where_it_is(place: Path, workspace: Path) -> None:
    # The sandbox makes empty files and folders on which it mounts those of the machine.
    if str(workspace).startswith("/tmp/"):
        hidden = place / str(workspace).removeprefix("/tmp/")
        hidden.mkdir(parents=True)
        (hidden / "b.sh").write_text("git push\n")
    assert find(place, workspace, str(workspace / "b.sh")) == str(workspace / "b.sh")
    assert find(place, workspace, "/etc/hosts") == "/etc/hosts"


def test_a_file_mounted_below_tmp_is_that_of_the_machine(place: Path, workspace: Path) -> None:
    own = Path(f"/tmp/{NAME}-{os.getpid()}")
    own.write_text("true\n")
    try:
        (place / own.name).touch()
        assert find(place, workspace, str(own)) == str(own)
        (place / own.name).write_text("git push\n")
        assert find(place, workspace, str(own)) == str(place / own.name)
    finally:
        own.unlink()


def test_a_script_below_tmp_is_read(place: Path, workspace: Path) -> None:
    command = f"sh /tmp/{NAME}/a.sh"
    with as_seen_by_commands(str(place), str(workspace)):
        verdict = judge_command(command, workspace=workspace, folder=workspace)
        assert is_new_file(f"/tmp/{NAME}/a.sh", str(workspace))
    assert ("git", "push") in [each.words for each in verdict.all_commands]
    verdict = judge_command(command, workspace=workspace, folder=workspace)
    assert ("git", "push") not in [each.words for each in verdict.all_commands]
