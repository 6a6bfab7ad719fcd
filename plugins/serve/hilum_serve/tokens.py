"""Tokens: one for each start of the server, and named ones with rights in a file."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import msgspec
from hilum import UsageError, make_private_folder
from hilum.errors import E_BAD_ARGS, E_UNKNOWN
from hilum.settings import config_folder, lock_folder

from hilum_serve.users import RIGHTS, Rights, User

FILE = "serve-tokens.json"
OWNER = "owner"
"""Name of the user with the token of the start."""
START = "start"
"""Id of the token of the start, which no other server accepts."""
MAX_FILE = 1_000_000
MAX_ENDED_COOKIES = 10_000
"""Number of cookies whose logout is remembered one by one."""
COOKIE_SECONDS = 30 * 24 * 3600
"""Seconds for which a login is valid, and for which a browser keeps its cookie."""
CODE_SECONDS = 60.0
"""Seconds within which a code that a browser is started with must be used."""
_NAME = "A name has 1 to 40 letters, digits, dots, hyphens and underscores."


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """A named token in the file, which contains only its hash.

    Attributes:
        name: Name of the user.
        hash: SHA-256 of the token. Tokens are random, so that a slow hash would add nothing.
        rights: What the user may do.
        workspaces: Folders whose sessions the user may use; empty for all folders of the server.
        expires: Unix time from which the token is refused; 0 for never.
        created: Unix time.
    """

    name: str
    hash: str
    rights: Rights = "watch"
    workspaces: tuple[str, ...] = ()
    expires: float = 0.0
    created: float = 0.0


def has_expired(expires: float) -> bool:
    """Return whether a token with this end is refused now; 0 stands for no end."""
    return expires != 0 and expires <= time.time()


def hash_token(token: str) -> str:
    """Return the hash of a token as hexadecimal text."""
    return hashlib.sha256(token.encode()).hexdigest()


def tokens_path() -> Path:
    """Return the path of the file with the named tokens."""
    return Path(config_folder()) / FILE


def read_tokens(path: Path) -> list[StoredToken]:
    """Return the named tokens in a file; none if it does not exist.

    Raises:
        UsageError: The file cannot be read, is readable by other users, or has mistakes.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(MAX_FILE)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _file_error(path, f"cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & 0o077:
        hint = f"Run chmod 600 {path}."
        raise UsageError(
            f"The token file {path} is readable by other users.", code=E_BAD_ARGS, hint=hint
        )
    try:
        return msgspec.json.decode(data, type=list[StoredToken])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _file_error(path, f"has a mistake: {error}") from None


def write_tokens(path: Path, tokens: Sequence[StoredToken]) -> None:
    """Replace the file with the named tokens, readable only by the user."""
    data = msgspec.json.format(msgspec.json.encode(tokens), indent=2)
    write_private(path, data + b"\n")


@contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Create the folder of the file, and let no other process change the file in the block."""
    make_private_folder(path.parent)
    with lock_folder(path.parent):
        yield


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 and rename it into place, so that no link is followed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def add_token(
    path: Path,
    name: str,
    rights: Rights,
    *,
    workspaces: Sequence[Path] = (),
    seconds: float = 0.0,
) -> str:
    """Add a named token to the file, and return the token, which is shown only once.

    Args:
        path: The file.
        name: Name of the user.
        rights: What the user may do.
        workspaces: Folders whose sessions the user may use; none for all folders of the server.
        seconds: Seconds until the token expires; 0 for never.

    Raises:
        UsageError: The name is wrong or taken, or the file cannot be used.
    """
    check_name(name)
    token = secrets.token_urlsafe(32)
    now = time.time()
    stored = StoredToken(
        name=name,
        hash=hash_token(token),
        rights=rights,
        workspaces=tuple(str(folder) for folder in workspaces),
        expires=now + seconds if seconds else 0.0,
        created=now,
    )
    with _lock_folder(path):
        tokens = read_tokens(path)
        if any(each.name == name for each in tokens):
            hint = f"Remove it first: hilum serve token remove {name}"
            text = f"There is a token named {name!r} already."
            raise UsageError(text, code=E_BAD_ARGS, hint=hint)
        write_tokens(path, [*tokens, stored])
    return token


def remove_token(path: Path, name: str) -> None:
    """Remove a named token from the file; a running server ends its streams within a second.

    Raises:
        UsageError: There is no such token.
    """
    with _lock_folder(path):
        tokens = read_tokens(path)
        kept = [token for token in tokens if token.name != name]
        if len(kept) == len(tokens):
            hint = "hilum serve token list shows all."
            raise UsageError(f"There is no token named {name!r}.", code=E_UNKNOWN, hint=hint)
        write_tokens(path, kept)


def check_name(name: str) -> None:
    """Check the name of a token.

    Raises:
        UsageError: The name has other characters, or is that of the server's own user.
    """
    is_plain = name.isascii() and all(each.isalnum() or each in "-_." for each in name)
    if not is_plain or not 1 <= len(name) <= 40 or name == OWNER:
        raise UsageError(f"{name!r} cannot be the name of a token.", code=E_BAD_ARGS, hint=_NAME)


@attrs.frozen
class _Known:
    """A token that the server accepts, and its user."""

    hash: str
    user: User
    expires: float


class Tokens:
    """The tokens that a running server accepts.

    A browser gets a secret of its own in a cookie in exchange for its token. The secret has a number,
    the time of the login, and is derived from the token's hash and a key. The cookie reveals no
    token. It ends with the server, unless the key is one that several servers have in common.

    Args:
        path: The file with the named tokens; None for none.
        start: The token of this start; empty if only named tokens are accepted.
        owner: The user of the start's token.
        names: Names of the named tokens that are accepted; none for all in the file.
        cookie_key: The key of cookies; by default, a new one for this start.
    """

    def __init__(
        self,
        path: Path | None,
        start: str,
        owner: User | None = None,
        *,
        names: Collection[str] = (),
        cookie_key: bytes = b"",
    ) -> None:
        self._path = path
        self._names = frozenset(names)
        self._key = cookie_key or secrets.token_bytes(32)
        self._start = _Known(hash_token(start), owner or _make_owner(), 0.0) if start else None
        self._named: list[_Known] = []
        self._stamp: tuple[int, ...] = ()
        self._codes: dict[str, float] = {}
        self._last_cookie = 0
        self._ended_cookies: set[int] = set()
        self._first_cookie = 0
        self.reload()

    def reload(self) -> bool:
        """Read the file again if it has changed, and return whether it had.

        A file that cannot be read any more is treated as empty: a removed token must not stay
        valid because of a mistake in the file.
        """
        if self._path is None:
            return False
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            stored = read_tokens(self._path)
        except UsageError:
            stored = []
        self._named = [
            _know(token) for token in stored if not self._names or token.name in self._names
        ]
        return True

    def find_user(self, token: str) -> User | None:
        """Return the user of a token; ``None`` if it is wrong or expired."""
        return self._find(hash_token(token), lambda known: known.hash)

    def make_code(self) -> str:
        """Return a code that logs the start's user in once, within a minute."""
        code = secrets.token_urlsafe(32)
        self._codes[hash_token(code)] = time.monotonic() + CODE_SECONDS
        return code

    def find_login_user(self, token: str) -> User | None:
        """Return the user of a token or of a code, which is then used up."""
        expires = self._codes.pop(hash_token(token), 0.0)
        if expires > time.monotonic() and self._start is not None:
            return self._start.user
        return self.find_user(token)

    def find_cookie_user(self, secret: str) -> User | None:
        """Return the user of a cookie's secret; ``None`` if it is wrong, ended or expired."""
        user = self._find_proved(secret)
        return user if user is not None and self._is_login_valid(user.login) else None

    def find_cookie_number(self, secret: str) -> int | None:
        """Return the number of a cookie, also of one that has ended; ``None`` if it is wrong."""
        user = self._find_proved(secret)
        return None if user is None else user.login

    def end_cookie(self, number: int) -> bool:
        """Refuse the cookie with a number from now on, and return whether it was valid."""
        if not self._is_login_valid(number):
            return False
        self._ended_cookies.add(number)
        while len(self._ended_cookies) > MAX_ENDED_COOKIES:
            # All older cookies end with this one, so that no cookie becomes valid again.
            oldest = min(self._ended_cookies)
            self._ended_cookies.discard(oldest)
            self._first_cookie = max(self._first_cookie, oldest + 1)
        return True

    def find_named(self, name: str) -> User | None:
        """Return the user with a name, whom a reverse proxy has authenticated."""
        for known in self._named:
            if known.user.name == name and not has_expired(known.expires):
                return known.user
        return None

    def make_cookie(self, user: User) -> str:
        """Return a new secret for the cookie of a user."""
        self._last_cookie = max(self._last_cookie + 1, int(time.time() * 1e6))
        identity = f"{self._last_cookie}-{secrets.token_hex(16)}"
        for known in self._all():
            if known.user.token == user.token:
                return f"{identity}.{self._make_proof(known, identity)}"
        return f"{identity}.{secrets.token_hex(32)}"

    def is_valid(self, user: User) -> bool:
        """Return whether the token of a user is still accepted, with the same rights.

        If the user has logged in with a browser, the login must not have ended either.
        """
        if user.login and not self._is_login_valid(user.login):
            return False
        return any(known.user == user and not has_expired(known.expires) for known in self._all())

    def _is_login_valid(self, number: int) -> bool:
        """Return whether the login with a number has neither ended nor expired."""
        if number < self._first_cookie or number in self._ended_cookies:
            return False
        return number >= (time.time() - COOKIE_SECONDS) * 1e6

    def _find_proved(self, secret: str) -> User | None:
        """Return the user of a cookie's secret, with the login; ``None`` if it is wrong."""
        identity, _, proof = secret.partition(".")
        user = self._find(proof, lambda known: self._make_proof(known, identity))
        return None if user is None else attrs.evolve(user, login=_read_cookie_number(secret))

    def _all(self) -> list[_Known]:
        return [*self._named, self._start] if self._start is not None else self._named

    def _make_proof(self, known: _Known, identity: str) -> str:
        """Return the part of a cookie's secret that only this server can compute."""
        data = f"{identity} {known.hash}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()

    def _find(self, given: str, of: Callable[[_Known], str]) -> User | None:
        found: User | None = None
        data = given.encode("utf-8", "surrogateescape")
        # All tokens are compared, and each in constant time, so that the time reveals nothing.
        for known in self._all():
            is_same = hmac.compare_digest(data, of(known).encode())
            if is_same and not has_expired(known.expires):
                found = known.user
        return found


def _know(token: StoredToken) -> _Known:
    user = User(
        name=token.name,
        rights=token.rights,
        workspaces=tuple(Path(folder) for folder in token.workspaces),
        token=token.hash[:16],
    )
    return _Known(token.hash, user, token.expires)


def _read_cookie_number(secret: str) -> int:
    """Return the number of a cookie whose secret has proved right: microseconds of Unix time."""
    return int(secret.partition("-")[0])


def _make_owner() -> User:
    return User(OWNER, RIGHTS[-1], token=START)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)


def _file_error(path: Path, what: str) -> UsageError:
    return UsageError(f"The token file {path} {what}.", code=E_BAD_ARGS)
