"""Keeps a model's proposals until the user decides about them.

The proposals are in the user's data folder, which agents cannot change without approval: what the
user accepts by number is what the user has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hilum_rules.project_data import data_file, write_data
from hilum_rules.proposals.proposal import Proposal, Verified

FILE = "proposals.json"


class Kept(msgspec.Struct, frozen=True):
    """A proposal that the user has not decided about.

    Attributes:
        proposal: The proposal.
        is_rejected: Whether it could not be signed when it was checked last.
    """

    proposal: Proposal
    is_rejected: bool = False


def read_proposals(top: Path) -> dict[str, Kept]:
    """Return the proposals for a project, by the hash of their sentence. Blocks.

    Args:
        top: The root of the repository.

    Returns:
        The proposals; none if they cannot be read, because the model can be asked again.
    """
    try:
        data = data_file(top, FILE).read_bytes()
        return msgspec.json.decode(data, type=dict[str, Kept])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}


def keep_proposals(top: Path, verified: Mapping[str, Verified]) -> None:
    """Add checked proposals to those that are kept for a project. Blocks.

    Args:
        top: The root of the repository.
        verified: The proposals, by the hash of their sentence.
    """
    kept = read_proposals(top)
    for name, each in verified.items():
        kept[name] = Kept(each.proposal, bool(each.rejected))
    write_data(data_file(top, FILE), msgspec.json.encode(kept))


def forget_proposals(top: Path, hashes: Iterable[str]) -> None:
    """Remove the proposals for sentences about which the user has decided. Blocks."""
    gone = set(hashes)
    kept = {name: each for name, each in read_proposals(top).items() if name not in gone}
    write_data(data_file(top, FILE), msgspec.json.encode(kept))
