"""The plugin in a kernel: where the file is, what the settings do, and that sessions outlive their
kernel.
"""

from pathlib import Path

import hilum_store
import pytest
from hilum import SettingsError, StoreError, open_kernel
from hilum.errors import E_BUSY, E_STORE
from hilum_store import SqliteStore, database_path


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))


def test_default_path_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HILUM_DATA wins over XDG_DATA_HOME, which wins over the home folder.

    A path of its own wins over all.
    """
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert database_path() == tmp_path / "data" / "sessions.db"
    assert database_path("work.db") == tmp_path / "data" / "work.db"
    assert database_path("~/mine.db") == tmp_path / "home" / "mine.db"
    assert database_path("/srv/all.db") == Path("/srv/all.db")
    monkeypatch.delenv("HILUM_DATA")
    assert database_path() == tmp_path / "xdg" / "hilum" / "sessions.db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert database_path() == tmp_path / "home" / ".local" / "share" / "hilum" / "sessions.db"


async def test_session_outlives_its_kernel(tmp_path: Path) -> None:
    """``provide_store`` gives the store: a session made in one kernel is listed and resumed in
    another, events and all.
    """
    async with open_kernel([hilum_store]) as kernel:
        assert isinstance(kernel.store, SqliteStore)
        assert not (tmp_path / "data").exists()
        async with kernel.open_session(tmp_path) as session:
            name = session.id
        before = list(await kernel.store.read(name))
    assert before
    async with open_kernel([hilum_store]) as kernel:
        [info] = await kernel.store.list(str(tmp_path))
        assert (info.id, info.events) == (name, len(before))
        async with kernel.open_session(resume=name[:15]) as session:
            assert list(await kernel.store.read(name))[: len(before)] == before
            async with open_kernel([hilum_store]) as other:
                with pytest.raises(StoreError) as caught:
                    await other.store.open(name)
                assert caught.value.code == E_BUSY


async def test_settings_choose_file_and_durability(tmp_path: Path) -> None:
    """Both settings arrive at the store."""
    settings = {"store.path": str(tmp_path / "own.db"), "store.durability": "power"}
    async with open_kernel([hilum_store], settings=settings) as kernel:
        assert isinstance(kernel.store, SqliteStore)
        assert (kernel.store.path, kernel.store.durability) == (tmp_path / "own.db", "power")


async def test_project_cannot_redirect_the_store(tmp_path: Path) -> None:
    """A repository must not choose where the user's sessions are written."""
    (tmp_path / ".hilum").mkdir()
    (tmp_path / ".hilum" / "settings.toml").write_text('[store]\npath = "/tmp/stolen.db"\n')
    with pytest.raises(SettingsError, match=r"store\.path"):
        async with open_kernel([hilum_store], workspace=tmp_path):
            pass


async def test_unusable_file_is_told_when_a_session_opens(tmp_path: Path) -> None:
    """The kernel opens; the session says what is wrong with the file, which stays as it is."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sessions.db").write_text("my notes\n" * 1000)
    async with open_kernel([hilum_store]) as kernel:
        with pytest.raises(StoreError, match="is not a hilum session file") as caught:
            async with kernel.open_session(tmp_path):
                pass
        assert caught.value.code == E_STORE
    assert (tmp_path / "data" / "sessions.db").read_text() == "my notes\n" * 1000
