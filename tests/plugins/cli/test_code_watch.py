"""The fork server learns of each change of its code, whether or not the system reports it."""

import os
import sys
from pathlib import Path

import pytest
from hilum import inotify
from hilum_cli.fork_server import stamps

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork server: only Linux")


@pytest.fixture
def code(tmp_path: Path, monkeypatch) -> Path:
    """A folder on ``sys.path`` with a package, in which everything is watched."""
    folder = tmp_path / "outer" / "packages"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "module.py").write_text("one")
    (folder / "thing-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(inotify, "LOCAL_FILE_SYSTEMS", {inotify.find_file_system(str(folder))})
    return folder


def open_watch(code: Path) -> stamps.CodeWatch:
    """Return a watch that has found nothing changed."""
    found = stamps.read_stamps()
    path = str(code / "package" / "module.py")
    found = {each: stamp for each, stamp in found.items() if each.startswith(str(code))}
    found[path] = stamps._read_stamp(path)
    found |= {each: stamps._read_stamp(each) for each in (sys.executable,)}
    found.setdefault(os.path.realpath(sys.executable), stamps._read_stamp(sys.executable))
    watch = stamps.CodeWatch(found)
    assert watch.find_changed() == ""
    return watch


def write_in_place(code: Path) -> None:
    (code / "package" / "module.py").write_text("two")


def replace_file(code: Path) -> None:
    new = code.parent / "new"
    new.write_text("new")
    os.replace(new, code / "package" / "module.py")


def install(code: Path) -> None:
    (code / "other-1.0.dist-info").mkdir()


def upgrade_in_place(code: Path) -> None:
    (code / "thing-1.0.dist-info" / "RECORD").write_text("")


def replace_outer_folder(code: Path) -> None:
    code.parent.rename(code.parent.with_name("moved"))
    (code / "package").mkdir(parents=True)
    (code / "package" / "module.py").write_text("three")


@pytest.mark.parametrize(
    "change", [write_in_place, replace_file, install, upgrade_in_place, replace_outer_folder]
)
@pytest.mark.parametrize("is_watched", [True, False])
def test_each_change_is_found(code: Path, monkeypatch, change, is_watched: bool):
    if not is_watched:
        monkeypatch.setattr(inotify, "LOCAL_FILE_SYSTEMS", set())
    watch = open_watch(code)
    assert (watch._events is not None) == is_watched
    change(code)
    assert watch.find_changed()
    # It stays found.
    assert watch.find_changed()
    watch.close()


def test_bytecode_is_no_change(code: Path):
    watch = open_watch(code)
    (code / "__pycache__").mkdir()
    (code / "package" / "__pycache__").mkdir()
    assert watch.find_changed() == ""
    watch.close()


def test_files_are_not_examined_while_nothing_happens(code: Path, monkeypatch):
    watch = open_watch(code)
    examined = []
    has_changed = stamps._has_changed

    def note(path: str, stamp: stamps.Stamp | None) -> bool:
        examined.append(path)
        return has_changed(path, stamp)

    monkeypatch.setattr(stamps, "_has_changed", note)
    assert watch.find_changed() == ""
    assert str(code / "package" / "module.py") not in examined
    assert str(code) in examined
    watch.close()
