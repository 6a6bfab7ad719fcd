"""A user and a project without hooks."""

import pytest
from hook_places import Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a user and a project without hooks."""
    place = Place(tmp_path / "bench")
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("HILUM_CONFIG", str(place.folder / "config"))
    monkeypatch.setenv("HILUM_DATA", str(place.folder / "data"))
    return place
