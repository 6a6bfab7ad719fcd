"""Keeps data about a project in the user's data folder, which agents cannot change unasked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from hilum import data_folder

from hilum_rules.atomic_files import replace_file

FOLDER = "rules"
PROPOSALS = "proposals.json"
"""A model's proposals for sentences about which the user has not decided."""

SIGNED = "signed.json"
"""The checks that this user has signed."""


def data_file(top: Path, name: str) -> Path:
    """Return the path of a file about a project.

    Args:
        top: The root of its repository.
        name: The end of the file name.
    """
    # The file name is a hash, because the path may be too long for a file name.
    digest = hashlib.sha256(os.fsencode(top)).hexdigest()[:32]
    return data_folder() / FOLDER / f"{digest}-{name}"


def write_data(path: Path, data: bytes) -> None:
    """Write a file atomically. A failure is ignored: the data can be made again. Blocks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, data)
    except OSError:
        return


def read_data(path: Path) -> bytes:
    """Return the contents of a file; empty if it cannot be read. Blocks."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def has_signed(*tops: Path) -> bool:
    """Return whether this user has signed a check in one of some folders. Blocks."""
    return any(os.path.lexists(data_file(top, SIGNED)) for top in tops)


class _Checks(msgspec.Struct):
    """The proposed checks."""

    enforce: tuple[str, ...] = ()
    advice: str = ""


class _Proposal(msgspec.Struct):
    """The part of a kept proposal that ``hilum rules`` needs."""

    proposal: _Checks = msgspec.field(default_factory=_Checks)
    is_open: bool = False


def find_proposed(top: Path) -> dict[str, tuple[str, ...]]:
    """Return what a model has answered, by the hash of the sentence. Blocks.

    Args:
        top: The root of the repository.

    Returns:
        The checks that the user can sign; for a sentence that the model calls advice, none.
    """
    try:
        data = read_data(data_file(top, PROPOSALS))
        proposals = msgspec.json.decode(data or b"{}", type=dict[str, _Proposal])
    except msgspec.DecodeError:
        return {}
    return {
        name: each.proposal.enforce
        for name, each in proposals.items()
        if each.is_open or each.proposal.advice
    }
