"""Keys that hilum keeps for the user, in the system's keyring or in a file.

The file ``keys.toml`` is next to the user's ``settings.toml``, never in a project. For a key in the
keyring, the file records only that the key exists, so that the keyring is not opened for every
provider. Each key is bound to the address for which it was entered: a server at another address
does not receive it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hilum import StoreError, UsageError, config_folder, home_folder
from hilum.settings import ChangeError, change

from hilum_models.stored_key import StoredKey

FILE = "keys.toml"
# The name of hilum's entries in the keyring.
SERVICE = "hilum"
KEYRING = "the keyring"
# Backends of `keyring` below this priority store keys as plain text, or nothing at all.
MIN_PRIORITY = 1


def find_key_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file with the user's keys."""
    return config_folder(environ) / FILE


def read_stored_keys(environ: Mapping[str, str] | None = None) -> dict[str, StoredKey]:
    """Return the keys that hilum keeps, by provider. Blocks.

    A key that cannot be read is returned with the reason: a mistake in this file must not keep
    sessions with other models from opening.
    """
    path = find_key_file(environ)
    if not os.path.lexists(path):
        return {}
    problem = _find_problem(path)
    table = {} if problem else _read_table(path)
    if table is None:
        problem = f"{path} is not valid TOML: correct or remove it"
    if problem:
        # Every provider reports the problem, because the file cannot say whose keys are in it.
        return {"": StoredKey("", "", str(path), problem)}
    found = {}
    for name, entry in (table or {}).items():
        if isinstance(entry, dict):
            found[name] = _read_entry(name, entry, path)
    return found


def _find_problem(path: Path) -> str:
    """Return why a file of keys must not be used; empty if it may be used."""
    try:
        status = path.stat()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    if os.name != "nt" and stat.S_IMODE(status.st_mode) & 0o077:
        return f"other users can access {path}, so it is not used: run chmod 600 {path}"
    return ""


def _read_table(path: Path) -> dict[str, Any] | None:
    import tomllib  # the import takes 7 ms, and most users have no such file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _read_entry(name: str, entry: dict[str, Any], path: Path) -> StoredKey:
    address = entry.get("address")
    address = address if isinstance(address, str) else ""
    if entry.get("keyring") is not True:
        key = entry.get("key")
        return StoredKey(key.strip() if isinstance(key, str) else "", address, str(path))
    keyring = _load_keyring()
    if keyring is None:
        reason = f"the key for {name} is in the keyring, and the package keyring is not installed"
        return StoredKey("", address, KEYRING, reason)
    try:
        key = keyring.get_password(SERVICE, name)
    except Exception as error:  # each backend has its own exceptions
        reason = f"the keyring cannot be read: {type(error).__name__}: {error}"
        return StoredKey("", address, KEYRING, reason)
    problem = "" if key else f"the keyring has no key for {name}"
    return StoredKey((key or "").strip(), address, KEYRING, problem)


def check_folder(workspace: Path | None, environ: Mapping[str, str] | None = None) -> None:
    """Check that the file of keys is not in a project. Blocks.

    Raises:
        UsageError: The file is in a project, so a key could be committed or packaged with the
            project.
    """
    folder = find_key_file(environ).parent.resolve()
    # A user may work in the home folder, which usually contains the configuration folder.
    home = home_folder().resolve()
    if workspace is None or home.is_relative_to(workspace) or workspace == home:
        return
    if folder.is_relative_to(workspace):
        message = f"Your settings folder {folder} is in this project; a key must not be there."
        hint = "Put the key into an environment variable, or move the folder (HILUM_CONFIG)."
        raise UsageError(message, hint=hint)


def parse_key(text: str) -> str:
    """Return the key in a text that the user typed or pasted.

    Raises:
        UsageError: The text is not a key.
    """
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        hint = "Copy the key again, without spaces or line breaks."
        raise UsageError("This is not a key.", hint=hint)
    return key


def write_key(
    provider: str, key: str, address: str, environ: Mapping[str, str] | None = None
) -> str:
    """Store a key, and return a description of where it is stored. Blocks.

    Args:
        provider: The provider's name.
        key: The key.
        address: Scheme, host and port of the server that may receive the key.
        environ: The environment that determines the user's folders.

    Raises:
        UsageError: The text is not a key.
        StoreError: It cannot be written.
    """
    key = parse_key(key)
    path = find_key_file(environ)
    if _write_to_keyring(provider, key):
        _write_entry(path, provider, {"keyring": True, "address": address})
        return KEYRING
    _write_entry(path, provider, {"key": key, "address": address})
    return str(path)


def remove_key(provider: str, environ: Mapping[str, str] | None = None) -> bool:
    """Remove the key stored for a provider, and return whether there was one. Blocks.

    Raises:
        StoreError: It cannot be removed.
    """
    path = find_key_file(environ)
    table = _read_table(path) if path.exists() else {}
    entry = (table or {}).get(provider)
    if entry is None:
        return False
    keyring = _load_keyring()
    if isinstance(entry, dict) and entry.get("keyring") is True and keyring is not None:
        try:
            keyring.delete_password(SERVICE, provider)
        except Exception as error:  # each backend has its own exceptions
            # If another program has deleted the key, hilum must forget it as well.
            if type(error).__name__ != "PasswordDeleteError":
                message = f"The keyring cannot be changed: {type(error).__name__}: {error}."
                raise StoreError(message, hint="Unlock the keyring, and try again.") from None
    _write_entry(path, provider, None)
    return True


def _write_entry(path: Path, provider: str, entry: dict[str, object] | None) -> None:
    try:
        if path.exists():
            # Restrict the permissions before the key is written, so that no other user can ever
            # read it.
            path.chmod(0o600)
        change(path, [provider], None)
        if entry is not None:
            change(path, [provider], entry)
    except ChangeError as error:
        message = f"{path} cannot be changed: {error.reason}."
        raise StoreError(message, hint="Correct or remove this file.") from None
    except OSError as error:
        message = f"{path} cannot be changed: {error.strerror or error}."
        raise StoreError(message, hint="Check the permissions of the file.") from None


def _write_to_keyring(provider: str, key: str) -> bool:
    """Write a key to the keyring, and return whether that was possible."""
    try:
        keyring = _load_keyring()
        if keyring is None or keyring.get_keyring().priority < MIN_PRIORITY:
            return False
        keyring.set_password(SERVICE, provider, key)
        # Some backends drop keys that they cannot store.
        return bool(keyring.get_password(SERVICE, provider) == key)
    except Exception:  # each backend has its own exceptions; the file is the alternative
        return False


def _load_keyring() -> Any:
    """Return the package ``keyring``, or ``None`` if it is not installed."""
    if find_spec("keyring") is None:
        return None
    return import_module("keyring")
