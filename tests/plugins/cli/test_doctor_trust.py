"""`hilum doctor` about trust in a folder."""

from pathlib import Path

import pytest
from hilum.trust import TrustedFolders
from hilum_cli.doctor import _trust


@pytest.fixture(autouse=True)
def _own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder is trusted."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))


def test_a_folder_without_extensions_needs_no_trust(tmp_path: Path) -> None:
    (row,) = _trust(tmp_path)
    assert (row.grade, row.found) == (
        "ok",
        "not needed: this folder has no extensions for hilum",
    )


def test_files_that_wait_for_trust_are_a_warning_with_the_command(tmp_path: Path) -> None:
    plugins = tmp_path / ".hilum" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "one.py").write_text("")
    (row,) = _trust(tmp_path)
    assert row.grade == "warn"
    assert row.found.endswith("does not load .hilum/plugins/one.py")
    assert "hilum trust" in row.fix
    TrustedFolders().add(tmp_path)
    (row,) = _trust(tmp_path)
    assert (row.grade, row.found) == ("ok", "this folder is trusted")


def test_commands_are_used_without_trust_except_their_shell_inserts(tmp_path: Path) -> None:
    for name in (".claude/commands/fix.md", ".claude/agents/one.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("Fix it.")
    (row,) = _trust(tmp_path)
    assert row.found == (
        "this folder is not trusted, so hilum does not load .claude/agents/one.md and runs no shell"
        " inserts of .claude/commands/fix.md"
    )
