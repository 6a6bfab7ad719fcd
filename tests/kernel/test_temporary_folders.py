"""Temporary folders: held while their owner lives, removed by whoever sweeps after it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hilum import make_temporary_folder, open_temporary_folder, sweep_temporary_folders

BLOCK = """
import os, sys
from hilum import open_temporary_folder
with open_temporary_folder("bench") as folder:
    os.makedirs(folder / "project/cache")
    print(folder, flush=True)
    sys.stdin.read()
"""
OWNER = """
import os, signal, sys
from hilum import make_temporary_folder
folder, held = make_temporary_folder("browser")
os.makedirs(f"{folder}/profile/cache")
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("code", "kind", "inner"),
    [(OWNER, "browser", "profile/cache"), (BLOCK, "bench", "project/cache")],
    ids=["folder", "block"],
)
def test_a_folder_stays_while_its_owner_lives_and_goes_after_a_kill(
    temp: Path, code: str, kind: str, inner: str
) -> None:
    """Swept by another process, with what is in it."""
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.parent == temp
        assert folder.name.startswith(f"hilum-{kind}-")
        sweep_temporary_folders()
        assert (folder / inner).is_dir()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    sweep_temporary_folders()
    assert list(temp.iterdir()) == []


def test_a_folder_is_removed_at_the_end_of_its_block(temp: Path) -> None:
    """Also after an error, and if another process has removed it before."""

    def fail() -> None:
        with open_temporary_folder("bench") as folder:
            (folder / "file").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with open_temporary_folder("bench") as folder:
        shutil.rmtree(folder)
    assert list(temp.iterdir()) == []


def test_a_folder_of_somebody_else_with_such_a_name_stays(temp: Path) -> None:
    """Only what was made by ``make_temporary_folder`` is removed, or is empty, old and named so."""
    (temp / "hilum-notes").mkdir()
    folder, held = make_temporary_folder()
    os.close(held)
    sweep_temporary_folders()
    assert [path.name for path in temp.iterdir()] == ["hilum-notes"]
    assert not Path(folder).exists()
