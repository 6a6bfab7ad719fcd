"""Parses user-written sources of skills: ``owner/name``, repository URLs, folders."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import PurePosixPath
from typing import Literal, NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

# GitHub's rules for names. A name that consists only of dots would be a path.
_OWNER = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}(?:[/@]|$))[\w.][\w.-]{0,99}"
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\]"
# Without encryption, anyone on the network path could change the skills.
_LOOPBACK = r"localhost|127(\.\d{1,3}){3}|\[::1\]"
_HINT = (
    "For example: owner/name, owner/name/path@v1, https://host/name.git@main#path, or a folder such"
    " as ./skills."
)


class SkillSource(msgspec.Struct, frozen=True):
    """A repository or a folder with skills.

    Attributes:
        text: The source as stored and shown; for a folder, its absolute path.
        kind: ``git`` or ``folder``.
        where: The URL from which Git fetches, or the absolute path of the folder.
        ref: Branch, tag or commit; empty for the repository's default branch.
        path: Path of a folder or file in the repository, with slashes; empty for the whole
            repository.
    """

    text: str
    kind: Literal["git", "folder"]
    where: str
    ref: str = ""
    path: str = ""

    @property
    def key(self) -> str:
        """The name of the repository's folder in the cache; sources with the same URL share it."""
        # Servers treat the URL with and without ``.git`` as the same repository.
        plain = self.where.removesuffix("/").removesuffix(".git")
        address = plain.partition("://")[2] or plain
        slug = re.sub(r"[^A-Za-z0-9]+", "-", address).strip("-")
        # Different URLs may have the same slug; the digest distinguishes them.
        digest = hashlib.sha256(plain.encode()).hexdigest()
        return f"{slug[-60:]}-{digest[:12]}"


def parse_source(text: str) -> SkillSource:
    """Parse a source.

    Args:
        text: ``owner/name`` (on GitHub), an ``https://``, ``ssh://`` or ``file://`` URL, or
            ``user@host:path``; each may be followed by ``@ref`` and a path (``owner/name/path``,
            or ``URL#path``). The text may also be a folder that begins with ``/``, ``./``, ``../``
            or ``~``. An ``http://`` URL is accepted for this machine only.

    Raises:
        UsageError: The text has none of these forms, or contains a forbidden part: an option,
            another protocol, ``..``, a password.
    """
    text = text.strip()
    if not text or not text.isprintable() or len(text) > 1000:
        _refuse(text, "it is empty or too long, or contains control characters")
    # Git would interpret such a text as an option, such as --upload-pack=PROGRAM.
    if text.startswith("-"):
        _refuse(text, "it looks like an option")
    if re.match(r"(~|\.\.?)?(/|$)", text):
        path = os.path.abspath(os.path.expanduser(text))
        return SkillSource(path, "folder", path)
    if "://" in text:
        return _parse_url(text)
    if re.match(r"[\w.-]+@[^/]*:", text):
        return _parse_scp_address(text)
    return _parse_github_name(text)


def _parse_scp_address(text: str) -> SkillSource:
    """Parse ``user@host:path``; see "GIT URLS" in the manual of ``git clone``."""
    user, _, rest = text.partition("@")
    host, _, path = rest.partition(":")
    source = _parse_url(f"ssh://{user}@{host}/{path.lstrip('/')}")
    # The text is stored as typed, so that the user recognizes it in the list.
    return msgspec.structs.replace(source, text=text)


def _parse_github_name(text: str) -> SkillSource:
    match = re.fullmatch(rf"({_OWNER})(/[^@]+)?(@.+)?", text)
    if match is None:
        _refuse(text, "it is neither a repository nor a folder")
    name, path, ref = match.groups(default="")
    where = f"https://github.com/{name.removesuffix('.git')}.git"
    ref = _check_ref(text, ref.removeprefix("@"))
    path = _check_path(text, path.removeprefix("/"))
    return SkillSource(text, "git", where, ref, path)


def _parse_url(text: str) -> SkillSource:
    """Parse the URL of a repository, with an optional ``@ref`` and ``#path``."""
    whole, _, path = text.partition("#")
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError:
        _refuse(text, "it is not a valid URL")
    host = parts.netloc.rpartition("@")[2]
    host = host[: -len(f":{port}")] if port is not None else host.removesuffix(":")
    _check_host(text, parts, host)
    _check_user(text, parts)
    inner, _, ref = parts.path.partition("@")
    # The URL of a folder in the web interface of GitHub, GitLab and others.
    web = re.fullmatch(rf"/({_OWNER})(?:/-)?/(?:tree|blob)/([^/]+)(?:/(.*))?", inner)
    if web:
        inner = f"/{web[1]}"
        ref = ref or web[2]
        path = path or web[3] or ""
    _check_repository_path(text, inner)
    address = host.lower()
    if parts.username:
        address = f"{parts.username}@{address}"
    if port:
        address += f":{port}"
    where = f"{parts.scheme.lower()}://{address}{inner.rstrip('/')}"
    ref = _check_ref(text, ref)
    path = _check_path(text, path)
    return SkillSource(text, "git", where, ref, path)


def _check_host(text: str, parts: SplitResult, host: str) -> None:
    scheme = parts.scheme.lower()
    if scheme not in ("https", "ssh", "file", "http"):
        _refuse(text, f"{scheme}:// is not supported; use https, ssh or file")
    if scheme == "http" and not re.fullmatch(_LOOPBACK, host):
        # HTTP to this machine does not cross a network.
        _refuse(text, "http:// can be changed in transit; use https://")
    needs_host = scheme != "file"
    if needs_host != bool(host) or (host and not re.fullmatch(_HOST, host)) or parts.query:
        _refuse(text, "it is not the URL of a repository")


def _check_user(text: str, parts: SplitResult) -> None:
    if parts.password is not None or (parts.username and parts.scheme.lower() != "ssh"):
        _refuse(
            text,
            "keys and passwords do not belong in a URL; Git's credential helpers store them",
        )
    # ssh would interpret a name with a leading hyphen as an option.
    if parts.username and not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", parts.username):
        _refuse(text, "its user name has invalid characters")


def _check_repository_path(text: str, path: str) -> None:
    names = unquote(path).strip("/").split("/")
    # The path is checked after decoding, because servers decode ``%2e%2e`` and ``%2d``. Git on an
    # SSH server would interpret a path with a leading hyphen as an option.
    if any(name in (".", "..", "") or name.startswith("-") for name in names):
        _refuse(text, "its path has '..', an empty name, or one that looks like an option")


def _check_ref(text: str, ref: str) -> str:
    """Return the name of a branch, tag or commit; reject options, ranges and expressions."""
    wrong = (
        ref.startswith(("-", "/", "."))
        or ref.endswith(("/", ".", ".lock"))
        or ".." in ref
        or "@{" in ref
        or "//" in ref
    )
    if wrong or not re.fullmatch(r"[\w./+@-]{0,200}", ref):
        _refuse(text, f"{ref!r} is not the name of a branch, tag or commit")
    return ref


def _check_path(text: str, path: str) -> str:
    path = unquote(path).strip("/")
    names = path.split("/") if path else []
    forbidden = any(name.casefold() in ("..", ".", "", ".git") for name in names)
    if forbidden or "\\" in path:
        _refuse(text, f"{path!r} is not a path in the repository")
    return PurePosixPath(*names).as_posix() if names else ""


def _refuse(text: str, why: str) -> NoReturn:
    # Remove passwords and keys, because the message is shown on terminals and written to logs.
    shown = re.sub(r"(?<=://)[^/@]*@|(?<=\?)[^#]*", "***", text)
    raise UsageError(
        f"{shown[:200]!r} cannot be a source of skills: {why}.",
        code=E_BAD_ARGS,
        hint=_HINT,
    )
