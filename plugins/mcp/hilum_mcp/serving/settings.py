"""What a user may set about hilum as an MCP server: table ``[mcp_server]``."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("mcp_server")
class McpServerSettings:
    """hilum as an MCP server: what it offers to other clients.

    Options of ``hilum mcp serve`` win over it.
    """

    tools: list[str] = setting(
        factory=lambda: ["*"],
        project=False,
        help="Tools to offer: names, patterns, or risks (read, write, execute, network).",
    )
    agents: list[str] = setting(
        factory=lambda: ["*"],
        project=False,
        help="Agents to offer as tools, by name or pattern; none for [].",
    )
    sessions: bool = setting(
        default=True,
        project=False,
        help="Offer the sessions of the folder as resources, to be read.",
    )
    prompts: bool = setting(default=True, project=False, help="Offer the skills as prompts.")
    approve: Literal["ask_first", "auto", "readonly"] = setting(
        default="ask_first",
        project=False,
        help=(
            "Calls that change something: ask the client's user, let run, or refuse. Who cannot be"
            " asked is refused."
        ),
    )
