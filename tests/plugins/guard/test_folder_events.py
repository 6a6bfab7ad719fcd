"""Scans of large workspaces that inotify makes unnecessary, and the doubts that make them necessary."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hilum import inotify
from hilum.inotify import LOCAL_FILE_SYSTEMS, Event, Inotify, find_file_system
from hilum_guard.watching import folder_events, folder_scan
from hilum_guard.watching.folder_events import FolderEvents
from hilum_guard.watching.folder_scan import FolderScan
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

# Before the fixture below changes it.
MIN_FOLDERS = folder_events.MIN_FOLDERS

pytestmark = pytest.mark.skipif(
    find_file_system("/tmp") not in LOCAL_FILE_SYSTEMS,
    reason="inotify does not report all changes here",
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch small workspaces, too, and trust change times at once."""
    monkeypatch.setattr(folder_events, "MIN_FOLDERS", 3)
    monkeypatch.setattr(folder_scan, "SETTLED", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace."""
    root = tmp_path / "work"
    for name in ("a/b/c", "a/d", "e", "node_modules/f"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    return root


@pytest.fixture
def events(root: Path) -> Iterator[FolderEvents]:
    """Its watches."""
    found = FolderEvents([str(root)])
    yield found
    found.close()


@pytest.fixture
def scan(root: Path, events: FolderEvents) -> FolderScan:
    """A scan whose folders are all watched."""
    scan = FolderScan([str(root)], events)
    for _ in range(3):
        scan.refresh(everywhere=False)
    assert events.confirm()
    return scan


def is_scanned(scan: FolderScan) -> bool:
    """Return whether a refresh examines the folders."""
    before = scan.relevant
    scan.refresh(everywhere=False)
    return scan.relevant is not before


def run_until_confirmed(scan: FolderScan) -> None:
    """Refresh until a scan is not necessary."""
    for _ in range(4):
        if not is_scanned(scan):
            return
    raise AssertionError("the workspace is scanned each time")


def write_config(root: Path) -> None:
    (root / "a/b/c/.mcp.json").write_text("{}")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": write_config,
    "a new folder": lambda root: (root / "e/new").mkdir(),
    "a removed file": lambda root: (root / "a/d/file").unlink(),
    "a removed folder": lambda root: shutil.rmtree(root / "a/b"),
    "a renamed file": lambda root: (root / "e/file").rename(root / "e/.envrc"),
    "a moved folder": lambda root: (root / "a/b").rename(root / "e/b"),
    "a moved folder, moved back": lambda root: [
        (root / "a").rename(root / "z"),
        (root / "z").rename(root / "a"),
    ],
    "a mode": lambda root: (root / "a/d").chmod(0o700),
    "a hard link": lambda root: os.link(root / "e/file", root / "a/d/link"),
    "a replaced root": lambda root: [
        root.rename(root.with_name("old")),
        shutil.copytree(root.with_name("old"), root),
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_scanned(scan: FolderScan, root: Path, change: str) -> None:
    """The result is the one of a scan that starts anew."""
    assert not is_scanned(scan)
    CHANGES[change](root)
    assert is_scanned(scan)
    fresh = FolderScan([str(root)])
    fresh.refresh(everywhere=False)
    assert [path for path, _ in scan.relevant] == [path for path, _ in fresh.relevant]
    assert set(scan.scanned.paths) == set(fresh.scanned.paths)
    run_until_confirmed(scan)


def test_contents_and_attributes_of_files_need_no_scan(scan: FolderScan, root: Path) -> None:
    """They are not what a scan looks at."""
    (root / "a/d/file").write_text("other")
    (root / "a/d/file").chmod(0o600)
    assert not is_scanned(scan)


def test_a_folder_that_is_created_and_filled_later(scan: FolderScan, root: Path) -> None:
    """A new folder is watched before a scan is omitted."""
    (root / "e/new/deep").mkdir(parents=True)
    run_until_confirmed(scan)
    (root / "e/new/deep/.mcp.json").write_text("{}")
    assert is_scanned(scan)
    assert f"{root}/e/new/deep" in dict(scan.relevant)


def test_a_folder_that_replaces_another_while_it_is_watched(
    scan: FolderScan, root: Path, events: FolderEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that exchanges folders does not make hilum watch others."""
    real = os.open
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()

    def swapped(path, *args, **kwargs):
        if path == f"{root}/e/new":
            (root / "e/new").rename(root.parent / "kept")
            (root / "e/new").symlink_to(elsewhere)
            try:
                return real(path, *args, **kwargs)
            finally:
                (root / "e/new").unlink()
                (root.parent / "kept").rename(root / "e/new")
        return real(path, *args, **kwargs)

    (root / "e/new").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(folder_events.os, "open", swapped)
        scan.refresh(everywhere=False)
    assert not events.confirm()
    run_until_confirmed(scan)
    (root / "e/new/.mcp.json").write_text("{}")
    assert is_scanned(scan)


def test_lost_events(scan: FolderScan, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an overflow, everything is scanned and watched again."""
    read = Inotify.read

    def overflow(self: Inotify) -> Iterator[Event]:
        list(read(self))
        yield Event(-1, inotify.OVERFLOW, "")

    inode = (root / "a/d").stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(Inotify, "read", overflow)
        shutil.rmtree(root / "a/d")
        (root / "a/d").mkdir()
        assert is_scanned(scan)
    run_until_confirmed(scan)
    (root / "a/d/.mcp.json").write_text("{}")
    assert is_scanned(scan), f"the inode was {inode}"


def test_mounts_other_file_systems_and_limits(
    scan: FolderScan, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What inotify does not report leads to scans."""
    mounts = [("/", "ext4"), (f"{root}/a", "ext4")]
    limit = tmp_path / "limit"
    limit.write_text("8\n")
    for name, value in (
        ("find_file_system", lambda path: "fuse"),
        ("MAX_WATCHES_FILE", str(limit)),
        ("MIN_FOLDERS", 100),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(folder_events, name, value)
            other = FolderEvents([str(root)])
            fresh = FolderScan([str(root)], other)
            for _ in range(4):
                assert is_scanned(fresh)
            other.close()
    with monkeypatch.context() as patch:
        patch.setattr(inotify, "read_mounts", lambda: iter(mounts))
        patch.setattr(FolderEvents, "_read_surroundings", lambda self: (b"new", ()))
        assert is_scanned(scan)
    for _ in range(4):
        assert is_scanned(scan)


@pytest.mark.parametrize(("count", "is_watched"), [(10, False), (100, True)])
def test_projects_of_ordinary_size_are_watched(
    root: Path, monkeypatch: pytest.MonkeyPatch, count: int, is_watched: bool
) -> None:
    """A project of 2,000 files has about a hundred folders; in small ones, a scan is as fast."""
    monkeypatch.setattr(folder_events, "MIN_FOLDERS", MIN_FOLDERS)
    for number in range(count):
        (root / f"more/{number}").mkdir(parents=True)
    events = FolderEvents([str(root)])
    scan = FolderScan([str(root)], events)
    for _ in range(3):
        scan.refresh(everywhere=False)
    assert events.confirm() is is_watched
    assert is_scanned(scan) is not is_watched
    events.close()


@pytest.mark.parametrize("uses_events", [True, False])
def test_a_command_leaves_a_hook(root: Path, tmp_path: Path, uses_events: bool) -> None:
    """It is made inert, however the workspace is checked."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    running = [1]
    watch = WorkspaceWatcher([str(root)], alive=lambda: len(running), uses_events=uses_events)
    try:
        for _ in range(4):
            assert watch.begin()[1] == []
            assert watch.check() == []
        nested = root / "a/b/c/inner"
        subprocess.run(["git", "init", "-q", str(nested)], check=True)
        (nested / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
        (nested / ".git/hooks/pre-commit").chmod(0o755)
        running.clear()
        assert "pre-commit" in "".join(watch.check())
        assert not (nested / ".git/hooks/pre-commit").exists()
    finally:
        watch.close()


def test_a_scan_ahead_leaves_only_what_changed_to_the_first_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = WorkspaceWatcher([str(root)])
    watcher.scan_ahead()
    assert not watcher.dirty
    (root / "new").mkdir()
    listed: list[str] = []
    list_folder = folder_scan._list_folder

    def note(path: str, *arguments: object, **options: object) -> object:
        listed.append(path)
        return list_folder(path, *arguments, **options)

    monkeypatch.setattr(folder_scan, "_list_folder", note)
    watcher.begin()
    assert sorted(listed) == [str(root), str(root / "new")]
