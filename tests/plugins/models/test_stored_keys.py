"""Keys that hilum keeps: in the system's keyring, or in a file that only the user can read."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hilum import StoreError
from hilum_models.stored_keys import (
    KEYRING,
    find_key_file,
    read_stored_keys,
    remove_key,
    write_key,
)

KEY = "sk-secret-1234567890"
HOME = "https://api.openai.com"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HILUM_CONFIG": str(tmp_path / "config")}


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[tuple[str, str], str]]:
    """Install a package ``keyring`` with a backend of the given priority; return its entries."""

    def install(priority: float = 5, broken: bool = False) -> dict[tuple[str, str], str]:
        entries: dict[tuple[str, str], str] = {}
        module = ModuleType("keyring")
        module.__spec__ = SimpleNamespace(name="keyring")  # type: ignore[assignment]

        def get_password(service: str, name: str) -> str | None:
            if broken:
                raise RuntimeError("the keyring is locked")
            return entries.get((service, name))

        def set_password(service: str, name: str, key: str) -> None:
            entries[service, name] = key

        def delete_password(service: str, name: str) -> None:
            del entries[service, name]

        module.get_keyring = lambda: SimpleNamespace(priority=priority)  # type: ignore[attr-defined]
        module.get_password = get_password  # type: ignore[attr-defined]
        module.set_password = set_password  # type: ignore[attr-defined]
        module.delete_password = delete_password  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "keyring", module)
        return entries

    return install


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the package, if it is installed."""
    monkeypatch.setattr("hilum_models.stored_keys.find_spec", lambda name: None)


def test_without_a_keyring_a_key_is_in_a_file_of_the_user(
    environ: dict[str, str], no_keyring: None
) -> None:
    """Several keys, each with its address; removing one leaves the other."""
    place = write_key("openai", f" {KEY}\n", HOME, environ)
    write_key("groq", "gsk-1234567890", "https://api.groq.com", environ)
    file = find_key_file(environ)
    assert place == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    stored = read_stored_keys(environ)
    assert (stored["openai"].key, stored["openai"].address) == (KEY, HOME)
    assert KEY not in repr(stored)
    assert remove_key("openai", environ)
    assert not remove_key("openai", environ)
    assert list(read_stored_keys(environ)) == ["groq"]


def test_a_key_is_replaced_by_another_one(environ: dict[str, str], no_keyring: None) -> None:
    """Nothing of the old one is left."""
    write_key("openai", KEY, HOME, environ)
    write_key("openai", "sk-another-123456", HOME, environ)
    assert read_stored_keys(environ)["openai"].key == "sk-another-123456"
    assert KEY not in find_key_file(environ).read_text()


def test_with_a_keyring_no_key_is_in_the_file(
    environ: dict[str, str], keyring: Callable[..., dict[tuple[str, str], str]]
) -> None:
    """The file only says that there is one."""
    entries = keyring()
    assert write_key("openai", KEY, HOME, environ) == KEYRING
    assert entries == {("hilum", "openai"): KEY}
    assert KEY not in find_key_file(environ).read_text()
    stored = read_stored_keys(environ)["openai"]
    assert (stored.key, stored.place) == (KEY, KEYRING)
    assert remove_key("openai", environ)
    assert entries == {}


@pytest.mark.parametrize("priority", [0, 0.5])
def test_a_keyring_that_stores_plain_text_is_not_used(
    environ: dict[str, str],
    keyring: Callable[..., dict[tuple[str, str], str]],
    priority: float,
) -> None:
    """Nor one that stores nothing."""
    entries = keyring(priority)
    assert write_key("openai", KEY, HOME, environ) == str(find_key_file(environ))
    assert entries == {}


def test_a_locked_keyring_is_a_problem_with_a_reason(
    environ: dict[str, str], keyring: Callable[..., dict[tuple[str, str], str]]
) -> None:
    """It is no error, because other models still work."""
    keyring()
    write_key("openai", KEY, HOME, environ)
    keyring(broken=True)
    stored = read_stored_keys(environ)["openai"]
    assert stored.key == ""
    assert "the keyring is locked" in stored.problem


def test_a_damaged_file_is_a_problem_with_a_reason(environ: dict[str, str]) -> None:
    """Nothing is raised, whatever is in the file."""
    file = find_key_file(environ)
    file.parent.mkdir()
    wrong = []
    for text in ("[openai", "openai = 3\n", '[openai]\nkey = 5\naddress = ["x"]\n', "\xff"):
        file.write_bytes(text.encode("latin-1"))
        file.chmod(0o600)
        stored = read_stored_keys(environ)
        if any(each.key for each in stored.values()):
            wrong.append((text, stored))
    assert wrong == []
    file.unlink()
    file.mkdir()
    assert read_stored_keys(environ)[""].problem


def test_a_folder_that_cannot_be_written_is_an_error(
    environ: dict[str, str], no_keyring: None
) -> None:
    """The user learns which one."""
    Path(environ["HILUM_CONFIG"]).write_text("a file, not a folder")
    with pytest.raises(StoreError, match="cannot be changed"):
        write_key("openai", KEY, HOME, environ)
