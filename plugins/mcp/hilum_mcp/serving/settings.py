"""The settings of hilum as an MCP server, in the table ``[mcp_server]``."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("mcp_server")
class McpServerSettings:
    """What hilum offers to other clients as an MCP server.

    Options of ``hilum mcp serve`` override them.
    """

    tools: list[str] = setting(
        factory=lambda: ["*"],
        project=False,
        help=(
            "Tools to offer: names, patterns, or permission categories (read, write, execute, "
            "network)."
        ),
    )
    agents: list[str] = setting(
        factory=lambda: ["*"],
        project=False,
        help="Agents to offer as tools, by name or pattern; [] for none.",
    )
    sessions: bool = setting(
        default=True,
        project=False,
        help="Whether to offer the folder's sessions as read-only resources.",
    )
    prompts: bool = setting(
        default=True, project=False, help="Whether to offer the skills as prompts."
    )
    approve: Literal["ask_first", "auto", "readonly"] = setting(
        default="ask_first",
        project=False,
        help=(
            "How to handle calls that change something: ask_first asks the client's user (and"
            " refuses if the client cannot ask), auto runs them, readonly refuses them."
        ),
    )
