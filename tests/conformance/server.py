"""Tools that the MCP conformance suite asks a server for, as a plugin: what they do is what hilum's
own tools can do.

``tests/benchmarks/conformance_server.py`` loads it into ``hilum mcp serve``.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

import trio
from hilum import Call, Image, Output, Session, Tool, ToolError, config_folder, hookimpl, tool

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
HEADERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "empty_val": {"type": "string", "x-mcp-header": "EmptyVal"},
        "query": {"type": "string"},
    },
}
DEFINITIONS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["name"]},
    "then": {},
    "else": {"required": ["address"]},
    "additionalProperties": False,
}


def dot() -> bytes:
    """Give a red dot as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head, rows = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0), zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@tool(risk="read", effect="pure")
def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(risk="read", effect="pure")
def test_image_content() -> Output:
    """Give an image."""
    return Output("A red dot.", (Image("image/png", dot(), "tool:test_image_content"),))


@tool(risk="read", effect="pure")
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing.")


@tool(risk="read", effect="pure")
async def test_tool_with_progress(call: Call) -> str:
    """Say how far it is while it runs."""
    for percent in (0, 50, 100):
        call.emit(f"{percent} of 100\n")
        await trio.sleep(0.3)
    return "Done."


@tool(risk="write", effect="once")
def test_elicitation(message: str) -> str:
    """Do what needs a yes of the user.

    Args:
        message: Anything.
    """
    return message


async def _shown(**arguments: Any) -> str:
    return str(arguments)


ASKING = ("elicitation", "request_state", "tampered_state")
OWN = [
    test_simple_text,
    test_image_content,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
]
OWN += [
    Tool(f"test_input_required_result_{name}", "Needs a yes.", _shown, "write", schema=EMPTY)
    for name in ASKING
]
OWN += [
    Tool(name, "Does nothing.", _shown, "read", schema=EMPTY)
    for name in ("test_streaming_elicitation", "test_logging_tool")
]
OWN.append(
    Tool(
        "json_schema_2020_12_tool",
        "A schema with definitions.",
        _shown,
        "read",
        "pure",
        schema=DEFINITIONS,
    )
)
OWN.append(
    Tool(
        "test_x_mcp_header",
        "Arguments that headers repeat.",
        _shown,
        "read",
        "pure",
        schema=HEADERS,
    )
)


class Fixture:
    """Lists that change."""

    def __init__(self, session: Session) -> None:
        self.session, self.more = session, list[Tool]()

    @tool(risk="read", effect="once")
    def test_trigger_tool_change(self) -> str:
        """Make another tool."""
        self.more.append(
            Tool(f"another_{len(self.more)}", "Does nothing.", _shown, "read", schema=EMPTY)
        )
        self.session.tools_changed()
        return "Made."

    @tool(risk="read", effect="once")
    def test_trigger_prompt_change(self) -> str:
        """Make another skill."""
        folder = config_folder() / "skills" / f"another-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {folder.name}\ndescription: Nothing.\n---\nDo nothing.\n"
        )
        return "Made."

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Give all tools."""
        return [*OWN, *self.more, self.test_trigger_tool_change, self.test_trigger_prompt_change]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Fixture]:
    """Open the half."""
    yield Fixture(session)
