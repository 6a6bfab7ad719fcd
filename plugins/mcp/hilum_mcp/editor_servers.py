"""Finds the servers that the user's editor gives to a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hilum import OfferedServers

if TYPE_CHECKING:
    from hilum import Session


def find_offered(session: Session) -> Mapping[str, Mapping[str, Any]]:
    """Return the servers by name, each as in a file with ``mcpServers``."""
    offering = session.kernel.plugin(OfferedServers)
    return offering.offered_mcp_servers() if offering is not None else {}
