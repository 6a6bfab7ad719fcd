"""Where skills come from, as the user writes it: ``owner/name``, addresses of repositories,
folders.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import PurePosixPath
from typing import Literal, NoReturn
from urllib.parse import unquote, urlsplit

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

_OWNER = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}(?:[/@]|$))[\w.][\w.-]{0,99}"
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\]"
_LOOPBACK = r"localhost|127(\.\d{1,3}){3}|\[::1\]"
_HINT = (
    "For example: owner/name, owner/name/path@v1, https://host/name.git@main#path, or a folder such"
    " as ./skills."
)


class Source(msgspec.Struct, frozen=True):
    """A repository or a folder with skills.

    Attributes:
        text: As it is kept and shown; a folder's absolute path.
        kind: ``git`` or ``folder``.
        where: The address that git gets, or the absolute path of the folder.
        ref: Branch, tag or commit; empty for what the repository has as its head.
        path: Folder or file in the repository, with slashes; empty for all of it.
    """

    text: str
    kind: Literal["git", "folder"]
    where: str
    ref: str = ""
    path: str = ""

    @property
    def key(self) -> str:
        """Name of the folder where the repository is kept: the same for all sources with one
        address.
        """
        plain = self.where.removesuffix("/").removesuffix(".git")
        slug = re.sub(r"[^A-Za-z0-9]+", "-", plain.partition("://")[2] or plain).strip("-")[-60:]
        return f"{slug}-{hashlib.sha256(plain.encode()).hexdigest()[:12]}"


def parse_source(text: str) -> Source:
    """Read what a user writes for a source.

    Args:
        text: ``owner/name`` (at GitHub), ``https://``, ``ssh://`` or ``file://`` addresses,
            ``user@host:path``, each with ``@ref`` behind and a path (``owner/name/path``, or
            ``#path`` behind an address); or a folder that begins with ``/``, ``./``, ``../`` or
            ``~``. An ``http://`` address is taken on this machine only.

    Raises:
        UsageError: It is none of these, or asks for what is refused: options, other protocols,
            ``..``, passwords.
    """
    text = text.strip()
    if not text or not text.isprintable() or len(text) > 1000:
        _refuse(text, "it is empty, too long, or has characters that cannot be shown")
    if text.startswith("-"):
        _refuse(text, "it looks like an option")
    if text in (".", "..", "~") or text.startswith(("/", "./", "../", "~/")):
        path = os.path.abspath(os.path.expanduser(text))
        return Source(path, "folder", path)
    if "://" in text:
        return _address(text)
    if re.match(r"[\w.-]+@[^/]*:", text):
        user, _, rest = text.partition("@")
        host, _, path = rest.partition(":")
        source = _address(f"ssh://{user}@{host}/{path.lstrip('/')}")
        return msgspec.structs.replace(source, text=text)
    match = re.fullmatch(rf"({_OWNER})(/[^@]+)?(@.+)?", text)
    if match is None:
        _refuse(text, "it is neither a repository nor a folder")
    where = f"https://github.com/{match[1].removesuffix('.git')}.git"
    return Source(
        text, "git", where, _ref(text, (match[3] or "")[1:]), _path(text, (match[2] or "")[1:])
    )


def _address(text: str) -> Source:
    whole, _, path = text.partition("#")
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError:
        _refuse(text, "it is no address")
    scheme = parts.scheme.lower()
    host = parts.netloc.rpartition("@")[2]
    host = host[: -len(f":{port}")] if port is not None else host.removesuffix(":")
    if scheme not in ("https", "ssh", "file", "http"):
        _refuse(text, f"{scheme}:// is not taken; https, ssh and file are")
    if scheme == "http" and not re.fullmatch(_LOOPBACK, host):
        _refuse(text, "http:// can be changed on the way; use https://")
    if parts.password is not None or (parts.username and scheme != "ssh"):
        _refuse(
            text,
            "keys and passwords do not belong in an address; git's credential helpers keep them",
        )
    if parts.username and not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", parts.username):
        _refuse(text, "the user in it is no plain name")
    if (
        parts.query
        or (scheme == "file") != (host == "")
        or (host and not re.fullmatch(_HOST, host))
    ):
        _refuse(text, "it is no address of a repository")
    inner, _, ref = parts.path.partition("@")
    web = re.fullmatch(rf"/({_OWNER})(?:/-)?/(?:tree|blob)/([^/]+)(?:/(.*))?", inner)
    if web:
        inner = f"/{web[1]}"
        ref = ref or web[2]
        path = path or web[3] or ""
    names = unquote(inner).strip("/").split("/")
    if not names[0] or any(name in (".", "..", "") or name.startswith("-") for name in names):
        _refuse(text, "its path has '..', an empty name, or one that looks like an option")
    user = f"{parts.username}@" if parts.username else ""
    where = f"{scheme}://{user}{host.lower()}{f':{port}' if port else ''}{inner.rstrip('/')}"
    return Source(text, "git", where, _ref(text, ref), _path(text, path))


def _ref(text: str, ref: str) -> str:
    """A name as git has them: nothing that is an option, a range, or an expression."""
    wrong = (
        ref.startswith(("-", "/", "."))
        or ref.endswith(("/", ".", ".lock"))
        or ".." in ref
        or "@{" in ref
        or "//" in ref
    )
    if wrong or not re.fullmatch(r"[\w./+@-]{0,200}", ref):
        _refuse(text, f"{ref!r} is no name of a branch, tag or commit")
    return ref


def _path(text: str, path: str) -> str:
    path = unquote(path).strip("/")
    names = path.split("/") if path else []
    if any(name in ("..", ".", "") or name.casefold() == ".git" for name in names) or "\\" in path:
        _refuse(text, f"{path!r} is no path in the repository")
    return PurePosixPath(*names).as_posix() if names else ""


def _refuse(text: str, why: str) -> NoReturn:
    # What is refused is shown on terminals and in logs: a password, a token or a key in it is not.
    shown = re.sub(r"(?<=://)[^/@]*@|(?<=\?)[^#]*", "***", text)
    raise UsageError(
        f"{shown[:200]!r} cannot be a source of skills: {why}.", code=E_BAD_ARGS, hint=_HINT
    )
