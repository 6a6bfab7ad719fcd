"""A project to serve, in a home folder of its own."""

import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a folder to serve; the home folder is empty."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
