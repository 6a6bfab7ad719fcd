"""Folders are walked and removed however deeply they are nested, and nothing else is touched."""

import os
import random
import stat
import sys
import threading
from pathlib import Path

import pytest
from hilum.folder_trees import remove_folder, walk_folders
from hilum.temporary import OWNER, open_temporary_folder, sweep_temporary_folders

DEPTH = 2_200  # deeper than Python calls itself, and longer than a path may be
not_windows = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no openat")


def nest(folder: Path, depth: int = DEPTH) -> None:
    """Nest folders, with a file in each."""
    folder.mkdir(exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        os.close(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def plant(root: Path, dice: random.Random) -> None:
    """Create a random tree with links."""
    folders = [root]
    for number in range(30):
        path = dice.choice(folders) / f"n{number}"
        kind = dice.random()
        if kind < 0.5:
            path.mkdir()
            folders.append(path)
        elif kind < 0.8:
            path.write_text("x")
        else:
            path.symlink_to(dice.choice([*folders, root / "missing"]))


@pytest.mark.parametrize("seed", range(8))
def test_a_walk_is_that_of_the_standard_library(tmp_path, seed):
    dice = random.Random(seed)
    plant(tmp_path, dice)
    assert list(walk_folders(tmp_path)) == list(os.walk(tmp_path))
    skipped = {f"n{dice.randrange(30)}" for _ in range(5)}
    found = []
    for walk in (walk_folders, os.walk):
        folders_found = []
        for folder, folders, files in walk(tmp_path):
            folders[:] = sorted((n for n in folders if n not in skipped), reverse=True)
            folders_found.append((folder, files))
        found.append(folders_found)
    assert found[0] == found[1]


@not_windows
def test_a_walk_of_deeply_nested_folders_ends(tmp_path):
    nest(tmp_path / "top", 1_500)
    depths = [folder.count("/d") for folder, _, _ in walk_folders(tmp_path / "top")]
    assert max(depths) - min(depths) == 1_500
    remove_folder(tmp_path / "top")


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_is_removed_and_no_link_is_followed(tmp_path, seed):
    dice = random.Random(seed)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    top = tmp_path / "top"
    top.mkdir()
    plant(top, dice)
    (top / "link").symlink_to(kept)
    remove_folder(top)
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(kept) == ["file"]
    (tmp_path / "to kept").symlink_to(kept)
    remove_folder(tmp_path / "to kept")
    remove_folder(tmp_path / "missing")
    assert sorted(os.listdir(tmp_path)) == ["kept", "to kept"]
    assert os.listdir(kept) == ["file"]


@not_windows
def test_deeply_nested_folders_are_removed(tmp_path):
    nest(tmp_path / "top")
    remove_folder(tmp_path / "top")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can open what it may not read")
def test_folders_without_permissions_are_removed(tmp_path):
    """Also by a user who is not root: the folders are the user's own."""
    user = os.geteuid() or 65534
    top = tmp_path / "top"
    for name, mode in (("a", 0o755), ("hidden", 0), ("cache", 0o555), ("z", 0o300)):
        (top / name / "in").mkdir(parents=True)
        (top / name / "in" / "file").write_text("x")
        os.chown(top / name / "in" / "file", user, -1)
        os.chown(top / name / "in", user, -1)
        os.chown(top / name, user, -1)
        (top / name / "in").chmod(mode)
        (top / name).chmod(mode)
    os.chown(top, user, -1)
    os.chown(tmp_path, user, -1)
    # pytest's folders are closed for other users.
    modes = {parent: stat.S_IMODE(parent.stat().st_mode) for parent in tmp_path.parents[:3]}
    me = os.geteuid()
    try:
        for parent, mode in modes.items():
            parent.chmod(mode | 0o011)
        os.seteuid(user)
        remove_folder(top)
    finally:
        os.seteuid(me)
        for parent, mode in modes.items():
            parent.chmod(mode)
    assert not top.exists()


@not_windows
def test_a_folder_that_is_moved_meanwhile_leads_nowhere_else(tmp_path, monkeypatch):
    """The way up leads to another folder then, from which nothing is removed."""
    (tmp_path / "top" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "inner").write_text("x")
    real = os.open

    def move(path, *arguments, **options):
        if path == "..":
            monkeypatch.undo()
            (tmp_path / "top" / "inner").rename(tmp_path / "other" / "moved")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", move)
    remove_folder(tmp_path / "top" / "inner")
    assert (tmp_path / "other" / "inner").read_text() == "x"


@not_windows
def test_files_that_appear_meanwhile_do_not_keep_it_from_ending(tmp_path):
    top = tmp_path / "top"
    nest(top, 50)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            try:
                (top / "d" / f"new{number}").write_text("x")
            except OSError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    remove_folder(top)
    stop.set()
    writer.join()
    remove_folder(top)
    assert not top.exists()


@not_windows
def test_a_killed_session_s_deep_folders_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "hilum-abcd1234"
    left.mkdir()
    (left / OWNER).touch()
    nest(left / "tmp")
    sweep_temporary_folders()
    assert os.listdir(tmp_path) == []
    with open_temporary_folder("test") as folder:
        nest(folder / "deep")
    assert os.listdir(tmp_path) == []
