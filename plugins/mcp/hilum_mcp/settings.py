"""The settings of the plugin.

None may stand in a project's file where it widens what a server may do.
"""

from __future__ import annotations

from typing import Literal

from hilum import section, setting

Sandbox = Literal["network", "closed", "off"]


@section("mcp")
class McpSettings:
    """Servers of the Model Context Protocol: how they are held, and how much of the prompt their
    tools may take.
    """

    definitions: int = setting(
        default=6_000,
        minimum=0,
        project="lower",
        help=(
            "Tokens of tool definitions in the prompt; what is beyond is reached through find_tools"
            " and call_tool."
        ),
    )
    start_seconds: float = setting(
        default=30.0, minimum=0.1, project="lower", help="Seconds a server may take to start."
    )
    call_seconds: float = setting(
        default=120.0,
        minimum=0.1,
        project="lower",
        help="Seconds a call may take without a sign of progress.",
    )
    sandbox: dict[str, Sandbox] = setting(
        factory=dict,
        project=False,
        help=(
            "Sandbox by server: network (what others get) reaches the network, closed does not, off"
            " has none."
        ),
    )
    sampling: Literal["ask", "never"] = setting(
        default="ask",
        project=False,
        help="Whether a server may use your model when you agree to it, each time.",
    )
    agents: dict[str, list[str]] = setting(
        factory=dict,
        project=False,
        help="Agents that may use a server, by server; those not named here are for all.",
    )
    trust_read_only: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Servers whose word you take that a tool only reads (readOnlyHint): such tools run like"
            " those that read."
        ),
    )
    client_metadata_url: str = setting(
        default="",
        project=False,
        help=(
            "Address of a document that describes hilum as an OAuth client, for servers that take"
            " one (https)."
        ),
    )
