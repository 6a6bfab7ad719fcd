"""What a session has to know of its servers to begin: kept on disk, so that no file of servers is
read for servers not used.

It holds for as long as nothing changed that it was told from: the files of servers, decisions, what
servers offered. Nothing is started by it: a server that is used is looked up anew, with its
approval. What may be secret of a description is not in it.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hilum import config_folder, data_folder

from hilum_mcp.offer import Offer, put
from hilum_mcp.places import CHOICES, DECISIONS, FILE, PROJECT, SHARED

FORMAT = 2
SETTLED = 2_000_000_000
"""Nanoseconds since the last change of a file after which another one shows in its times."""

Stamp = tuple[int, int, int, int, int]


class Seal(msgspec.Struct, frozen=True):
    """What changes with each file that says something of servers.

    Args:
        places: Format, project, folder of settings, home.
        stamps: How the files stand, ``None`` for one that is not there.
    """

    places: tuple[int, str, str, str]
    stamps: tuple[Stamp | None, ...]


class Brief(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server as a session begins with it.

    Args:
        name: What it is called.
        digest: ``Server.digest``.
        prefix: What the names of its tools begin with.
        state: As in its entry.
        reason: Why it is not on.
        start_seconds: How long its description lets a start take.
        call_seconds: How long its description lets a call take.
        offer: What it offered last, ``None`` where that is not known.
        names: What its tools are called, by its own names; those that its description leaves out
            are missing.
        local: Whether it runs on this machine, so that its tools may change files here.
    """

    name: str
    digest: str
    prefix: str
    state: str = "on"
    reason: str = ""
    start_seconds: float | None = None
    call_seconds: float | None = None
    offer: Offer | None = None
    names: dict[str, str] = {}
    local: bool = True


class Begun(msgspec.Struct, frozen=True):
    """What is kept of a workspace.

    Args:
        seal: What it was told from (``seal_of``).
        trusts: Whether the project was trusted; ``None`` where it describes no servers.
        briefs: Its servers.
    """

    seal: Seal
    trusts: bool | None
    briefs: tuple[Brief, ...]


def seal_of(workspace: str | os.PathLike[str]) -> Seal:
    """Return how the files stand that say something of servers. Blocks."""
    root = os.fspath(workspace)
    config = str(config_folder())
    data = str(data_folder())
    paths = [f"{config}/{FILE}", f"{config}/{DECISIONS}", f"{data}/mcp/offers"]
    paths += [f"{root}/{name}" for name in (*PROJECT, *SHARED, *CHOICES)]
    return Seal((FORMAT, root, config, os.path.expanduser("~")), tuple(map(_stamp, paths)))


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def load(seal: Seal) -> tuple[Brief, ...] | None:
    """Return the servers of a workspace as they were, ``None`` where something changed or nothing
    is kept. Blocks.

    Args:
        seal: Of now.
    """
    try:
        begun = msgspec.json.decode(_file(seal).read_bytes(), type=Begun)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None
    if seal != begun.seal:
        return None
    if begun.trusts is not None:
        from hilum_guard import trusted

        if trusted(os.path.realpath(seal.places[1])) != begun.trusts:
            return None
    return begun.briefs


def keep(seal: Seal, trusts: bool | None, briefs: Sequence[Brief]) -> None:
    """Keep what a session began with, where the next one can begin with it. Blocks.

    Args:
        seal: Of before the files were read.
        trusts: As in ``Begun``.
        briefs: Its servers.
    """
    # Windows has no time of the last change of a status: there the times can be set back.
    if os.name == "nt" or any(each.state not in ("on", "off") or _unknown(each) for each in briefs):
        return
    newest = max((stamp[-1] for stamp in seal.stamps if stamp), default=0)
    if time.time_ns() - newest > SETTLED:
        put(_file(seal), msgspec.json.encode(Begun(seal, trusts, tuple(briefs))))


def _unknown(brief: Brief) -> bool:
    return brief.state == "on" and brief.offer is None


def _file(seal: Seal) -> Path:
    mark = hashlib.sha256(os.fsencode(f"{seal.places[1]}\0{seal.places[2]}")).hexdigest()[:32]
    return data_folder() / "mcp" / "begun" / f"{mark}.json"
