"""The settings of the plugin.

A project cannot change settings that would give a server more access.
"""

from __future__ import annotations

from typing import Literal

from hilum import section, setting

Sandbox = Literal["network", "closed", "off"]


@section("mcp")
class McpSettings:
    """The time limits and sandbox of MCP servers, and the space for their tools in the prompt."""

    definitions: int = setting(
        default=6_000,
        minimum=0,
        project="lower",
        help=(
            "Maximum size, in tokens, of the tool definitions in the prompt; the agent reaches "
            "other tools through find_tools and call_tool."
        ),
    )
    start_seconds: float = setting(
        default=30.0,
        minimum=0.1,
        project="lower",
        help="Maximum number of seconds a server may take to start.",
    )
    call_seconds: float = setting(
        default=120.0,
        minimum=0.1,
        project="lower",
        help="Maximum number of seconds a call may take without progress.",
    )
    sandbox: dict[str, Sandbox] = setting(
        factory=dict,
        project=False,
        help=(
            "Sandbox by server: network (with network), closed (without network), or off (no"
            " sandbox)."
        ),
    )
    sampling: Literal["ask", "never"] = setting(
        default="ask",
        project=False,
        help="Whether a server may use your model: after you agree to each request, or never.",
    )
    agents: dict[str, list[str]] = setting(
        factory=dict,
        project=False,
        help="Agents that may use a server, by server; all agents may use the other servers.",
    )
    trust_read_only: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Servers whose readOnlyHint you trust: their tools with this hint have the permission "
            "category read."
        ),
    )
    client_metadata_url: str = setting(
        default="",
        project=False,
        help=(
            "HTTPS URL of a document that describes hilum as an OAuth client, for servers that"
            " accept one."
        ),
    )
