"""Runs hilum as an MCP server that offers tools, agents, skills and sessions to other clients.

Importing this package loads no heavy module.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilum_mcp import lazy

__all__ = ["serve"]


def serve(argv: Sequence[str]) -> int:
    """Run ``hilum mcp serve`` and return its exit code.

    Raises:
        HilumError: The arguments are wrong, or the server cannot start.
    """
    return lazy.serve_command.run(argv)
