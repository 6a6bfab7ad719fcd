"""A recording of somebody else changes nothing outside of its folder, and takes bounded memory."""

import os
import re
import shutil
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hilum import ToolError, UsageError
from hilum.errors import E_FILE_NOT_FOUND, E_STORE
from hilum_replay import read_limits
from hilum_replay.cassette_reader import load, loads
from hilum_replay.sessions import recording as recordings
from hilum_replay.sessions import replay_command, workspace_files
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.exporting import export_test
from hilum_replay.sessions.player import write_files
from hilum_replay.sessions.recorded_calls import apply_edit
from hilum_replay.sessions.recording import (
    SESSION_FILE,
    FileEdit,
    Header,
    RecordedFile,
    Recording,
    load_recording,
    save_recording,
)
from hilum_replay.sessions.session_test import check_session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "plugins/replay/hilum_replay/corpus"
DEEP = "[" * 50_000 + "]" * 50_000
NESTED = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of a recording of the corpus."""
    shutil.copytree(CORPUS / "read_and_search", tmp_path / "copy")
    return tmp_path / "copy"


def change_header(folder: Path, **values: object) -> None:
    """Change the header of a recording; a dictionary is added to the one that is there."""
    file = folder / SESSION_FILE
    first, _, rest = file.read_bytes().partition(b"\n")
    header = msgspec.json.decode(first)
    for name, value in values.items():
        if isinstance(value, dict):
            header[name] = {**header.get(name, {}), **value}
        else:
            header[name] = value
    file.write_bytes(msgspec.json.encode(header) + b"\n" + rest)


def check_refused(folder: Path, message: str, code: str = E_STORE) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        check_session(folder, folder.parent / "work")
    assert refused.value.code == code
    assert refused.value.hint


def describe_tree(folder: Path) -> dict[str, tuple[int, str, bytes]]:
    """Return the mode, the target and the content of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        target = str(path.readlink()) if path.is_symlink() else ""
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, target, data)
    return found


# --- writing --------------------------------------------------------------------------------------


def plant(folder: Path, victim: Path) -> None:
    """Make a recording whose links, one through the other, lead to a folder outside."""
    up = "../" * 20
    change_header(
        folder,
        folders=["top", NESTED],
        links={
            f"{NESTED}/er": f"{up}top",
            f"{NESTED}/er/l": f"{up}..{victim}",
            f"{NESTED}/er/l/planted": "../copy/before/shop/cart.py",
        },
    )


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside of all recordings."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    return folder


def test_links_through_links_write_nothing_outside(copy, victim):
    # In the workspace, the second link is at top/l, and climbs to the root of the file system.
    plant(copy, victim)
    before = describe_tree(victim)
    check_refused(copy, "leads through a link")
    assert describe_tree(victim) == before
