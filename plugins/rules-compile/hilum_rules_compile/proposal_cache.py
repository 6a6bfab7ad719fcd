"""Keeps a model's proposals until the user decides about them.

The proposals are in the user's data folder, which agents cannot change without approval: what the
user accepts by number is what the user has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec
from hilum import make_private_folder
from hilum.settings import lock_folder

from hilum_rules_compile.project_data import data_file, read_data, write_data
from hilum_rules_compile.proposal import Proposal, Verified

FILE = "proposals.json"


class CachedProposal(msgspec.Struct, frozen=True):
    """A proposal that the user has not decided about.

    Attributes:
        proposal: The proposal.
        is_open: Whether it is a check that could be signed when it was checked last.
    """

    proposal: Proposal
    is_open: bool = False


def read_proposals(top: Path) -> dict[str, Proposal]:
    """Return the proposals for a project, by the hash of their sentence. Blocks.

    Args:
        top: The root of the repository.

    Returns:
        The proposals; none if they cannot be read, because the model can be asked again.
    """
    return {name: each.proposal for name, each in read_cache(top).items()}


def read_cache(top: Path) -> dict[str, CachedProposal]:
    """Return what is kept for a project, by the hash of the sentence; empty if unreadable. Blocks.

    Args:
        top: The root of the repository.
    """
    return _decode(read_data(data_file(top, FILE)))


def keep_proposals(top: Path, verified: Mapping[str, Verified]) -> None:
    """Add checked proposals to those that are kept for a project. Blocks.

    Args:
        top: The root of the repository.
        verified: The proposals, by the hash of their sentence.
    """
    new = {
        name: CachedProposal(each.proposal, each.can_be_signed) for name, each in verified.items()
    }
    _update(top, new, ())


def forget_proposals(top: Path, hashes: Collection[str]) -> None:
    """Remove the proposals for sentences about which the user has decided. Blocks."""
    _update(top, {}, hashes)


def _update(top: Path, new: Mapping[str, CachedProposal], gone: Collection[str]) -> None:
    """Change the kept proposals, while no other process changes them."""
    path = data_file(top, FILE)
    try:
        make_private_folder(path.parent)
        with lock_folder(path.parent):
            known = _decode(read_data(path))
            kept = {name: each for name, each in known.items() if name not in gone}
            write_data(path, msgspec.json.encode({**kept, **new}))
    except OSError:
        # The model can be asked again.
        return


def _decode(data: bytes) -> dict[str, CachedProposal]:
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, CachedProposal])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
