"""A user with nothing configured, and a project."""

import pytest


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Set an empty home folder and return a project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "home").mkdir()
    return project
