"""An empty home folder for the tests of agents."""

import os

import pytest


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Create an empty home folder: no configuration, no agents."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [name for name in os.environ if name.startswith(("HILUM_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    return path
