"""Folders that only the user can use, with all the folders that are created for them."""

import os
import stat
import sys
from pathlib import Path

import pytest
from hilum import make_private_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no modes")


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_all_folders_that_are_created_are_private_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    folder = tmp_path / "home/.local/share/hilum/fork"
    for _ in range(2):
        make_private_folder(folder)
        assert mode(tmp_path / "home") == 0o755
        assert {mode(each) for each in (folder, *folder.parents[:3])} == {0o700}
    folder.chmod(0o750)
    make_private_folder(str(folder))
    assert mode(folder) == 0o750


def test_a_file_with_the_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file/inner"):
        with pytest.raises(OSError, match="file"):
            make_private_folder(folder)
    os.symlink("nowhere", tmp_path / "link")
    with pytest.raises(OSError, match="link"):
        make_private_folder(tmp_path / "link")
