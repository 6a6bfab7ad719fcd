"""Keeps a model's proposals until the user decides about them.

The proposals are in the user's data folder, which agents cannot change without approval: what the
user accepts by number is what the user has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hilum_rules.project_data import data_file, write_data
from hilum_rules.proposals.proposal import Proposal

FILE = "proposals.json"


def read_proposals(top: Path) -> dict[str, Proposal]:
    """Return the proposals for a project, by the hash of their sentence. Blocks.

    Args:
        top: The root of the repository.

    Returns:
        The proposals; none if they cannot be read, because the model can be asked again.
    """
    try:
        data = data_file(top, FILE).read_bytes()
        return msgspec.json.decode(data, type=dict[str, Proposal])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}


def write_proposals(top: Path, proposals: Mapping[str, Proposal]) -> None:
    """Store the proposals for a project. Blocks."""
    write_data(data_file(top, FILE), msgspec.json.encode(proposals))


def forget_proposals(top: Path, hashes: Iterable[str]) -> None:
    """Remove the proposals for sentences about which the user has decided. Blocks."""
    proposals = read_proposals(top)
    for name in hashes:
        proposals.pop(name, None)
    write_proposals(top, proposals)
