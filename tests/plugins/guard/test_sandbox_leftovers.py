"""What sessions leave: nothing at a normal end.

After a kill, what the next session removes, and only that.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

import pytest
from hilum import make_temporary_folder, sweep_temporary_folders, temporary
from hilum_guard.sandbox import control_groups
from hilum_guard.sandbox.masks import Masks, sweep_masks

KILLED = """
import os, signal, sys
from hilum import make_temporary_folder
from hilum_guard.sandbox.masks import Masks
folder, held = make_temporary_folder()
os.makedirs(f"{folder}/tmp/cache/uv")
masks = Masks()
masks.put(sys.argv[1])
masks.put(sys.argv[2], file=True)
print(folder, flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of this test alone, for temporary files and for hilum's data."""
    for name in ("temp", "data", "workspace"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    return tmp_path


def other(machine: Path, how: str) -> subprocess.Popen[str]:
    """Start another session, or one that is killed."""
    paths = [str(machine / "workspace" / name) for name in ("folder", "file")]
    argv = [sys.executable, "-c", KILLED, *paths, how]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def left(machine: Path) -> list[str]:
    """What is there."""
    return sorted(
        path.name.partition("-")[0]
        for name in ("temp", "workspace")
        for path in (machine / name).iterdir()
    )


def test_what_a_killed_session_left_is_removed(machine: Path) -> None:
    with other(machine, "killed") as killed:
        assert killed.wait() == -signal.SIGKILL
    assert left(machine) == ["file", "folder", "hilum"]
    sweep_temporary_folders()
    sweep_masks()
    assert left(machine) == []
    assert not list((machine / "data/masks").iterdir())


def test_what_a_living_session_uses_stays(machine: Path) -> None:
    with other(machine, "lives") as lives:
        assert lives.stdout is not None
        lives.stdout.readline()
        masks = Masks()
        masks.put(str(machine / "workspace/folder"))
        sweep_temporary_folders()
        sweep_masks()
        masks.close()
        assert left(machine) == ["file", "folder", "hilum"]
        lives.kill()
    sweep_temporary_folders()
    sweep_masks()
    assert left(machine) == []


def test_a_session_with_another_data_folder_keeps_the_masks_that_it_uses(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machine / "workspace/folder"
    with other(machine, "lives") as lives:
        assert lives.stdout is not None
        lives.stdout.readline()
        monkeypatch.setenv("HILUM_DATA", str(machine / "other data"))
        masks = Masks()
        masks.put(str(folder))
        before = folder.stat().st_ino
        lives.kill()
    # The next session of the killed one's data folder must not remove it meanwhile.
    monkeypatch.setenv("HILUM_DATA", str(machine / "data"))
    sweep_masks()
    assert left(machine) == ["folder", "hilum"]
    assert folder.stat().st_ino == before
    monkeypatch.setenv("HILUM_DATA", str(machine / "other data"))
    masks.close()
    # The session that only used the mask does not know whether the user created it.
    assert left(machine) == ["folder", "hilum"]
    monkeypatch.setenv("HILUM_DATA", str(machine / "data"))
    sweep_temporary_folders()
    sweep_masks()
    assert left(machine) == []


def test_a_named_pipe_in_place_of_a_mask_does_not_block(machine: Path) -> None:
    pipe = machine / "workspace/file"
    os.mkfifo(pipe)
    masks = Masks()
    masks.put(str(pipe), file=True)
    masks.close()
    assert pipe.exists()


def test_what_the_user_made_or_filled_stays(machine: Path) -> None:
    mine = machine / "workspace/mine"
    mine.mkdir()
    masks = Masks()
    masks.put(str(mine))
    masks.put(str(machine / "workspace/folder"))
    masks.put(str(machine / "workspace/file"), file=True)
    (machine / "workspace/folder/x").write_text("x")
    (machine / "workspace/file").write_text("x")
    masks.close()
    sweep_masks()
    assert left(machine) == ["file", "folder", "mine"]


def test_a_folder_without_an_owner_file_is_not_of_hilums_making(machine: Path) -> None:
    (machine / "temp/hilum-notes").mkdir()
    folder, held = make_temporary_folder()
    sweep_temporary_folders()
    assert left(machine) == ["hilum", "hilum"]
    os.close(held)
    sweep_temporary_folders()
    assert [path.name for path in (machine / "temp").iterdir()] == ["hilum-notes"]
    assert not os.path.exists(folder)


def test_a_folder_whose_owner_was_killed_while_it_made_it_is_removed(machine: Path) -> None:
    """Empty, or with a file that is locked no more; a new one may be another process's."""
    for name, age in (
        ("hilum-abcd1234", 3600),
        ("hilum-browser-abcd1234", 3600),
        ("hilum-young123", 0),
    ):
        folder = machine / "temp" / name
        folder.mkdir()
        os.utime(folder, (time.time() - age, time.time() - age))
    for name, age in (("hilum-efgh5678", 3600), ("hilum-young456", 0)):
        folder = machine / "temp" / name
        folder.mkdir()
        (folder / "owner.new").touch()
        os.utime(folder, (time.time() - age, time.time() - age))
    sweep_temporary_folders()
    assert sorted(path.name for path in (machine / "temp").iterdir()) == [
        "hilum-young123",
        "hilum-young456",
    ]


def test_a_sweep_that_is_cut_off_leaves_the_rest_to_the_next_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the owner, by which the folder is found, goes last."""
    with other(machine, "killed") as killed:
        killed.wait()
    [folder] = (machine / "temp").iterdir()
    for name in ("a", "b", "z"):
        (folder / name).mkdir()
    real = temporary.remove_folder
    removed: list[str] = []

    def cut_off(path: str) -> None:
        removed.append(path)
        if len(removed) > 2:
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(temporary, "remove_folder", cut_off)
    with pytest.raises(KeyboardInterrupt):
        sweep_temporary_folders()
    assert (folder / "owner").exists()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(machine / "temp"))
    sweep_temporary_folders()
    assert not folder.exists()


def test_a_group_is_its_owners_while_number_and_start_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number alone may be another process's by now."""
    started = control_groups._get_start_time(os.getpid())
    mine = f"hilum-{os.getpid()}-{started}-1024"
    old = f"hilum-{os.getpid()}-1024"
    for name in (
        mine,
        old,
        f"hilum-{os.getpid()}-1-1024",
        "hilum-4194305-1-1024",
        "hilum-4194305-1024",
        "hilum-x",
        "other",
    ):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(control_groups, "_BASES", (str(tmp_path),))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    control_groups.sweep_groups()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [mine, old, "hilum-x", "other"]
    )


def test_a_sweep_that_finds_nothing_is_quick(machine: Path) -> None:
    """It runs at every start."""
    for number in range(200):
        (machine / "temp" / f"other-{number}").mkdir()
    best = min(
        timeit.repeat(
            lambda: (sweep_masks(), control_groups.sweep_groups(), sweep_temporary_folders()),
            number=1,
            repeat=20,
        )
    )
    assert best < 0.005
