"""hilum as an MCP server: its tools, agents and sessions for other clients.

Importing this loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["serve"]


def serve(argv: Sequence[str]) -> int:
    """Run ``hilum mcp serve``; gives its exit code.

    Raises:
        HilumError: The arguments are wrong, or it cannot start.
    """
    from hilum_mcp.serving.command import run

    return run(argv)
