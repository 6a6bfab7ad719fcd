"""What hilum itself is imported from can be read in the sandbox, wherever it lies."""

import sys
import tempfile
from pathlib import Path

import pytest


async def test_plugins_that_lie_in_the_temporary_folder(
    box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox has a ``/tmp`` of its own.

    The parts of a plugin that run in it are needed there.
    """
    if box.backend not in ("bubblewrap", "spare"):
        pytest.skip("only bubblewrap has a /tmp of its own")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("imported", "other"):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "file").write_text("as it was")
        monkeypatch.setattr(sys, "path", [*sys.path, f"{folder}/imported"])
        done = await box.run(
            f"cat {folder}/imported/file; echo x > {folder}/imported/file; cat {folder}/other/file"
        )
        assert done.stdout == b"as it was"
        assert (Path(folder) / "imported" / "file").read_text() == "as it was"
