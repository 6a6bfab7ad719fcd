"""Tools that the MCP conformance suite asks a server for, as a plugin: what they do is what hilum's own tools can do.

``tests/benchmarks/conformance_server.py`` loads it into ``hilum mcp serve``.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import trio
from hilum import Call, Image, Output, Tool, ToolError, hookimpl, tool

HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "empty_val": {"type": "string", "x-mcp-header": "EmptyVal"},
        "query": {"type": "string"},
    },
}
DEFINITIONS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def dot() -> bytes:
    """Give a red dot as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

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


@hookimpl
def provide_tools() -> list[Tool]:
    """Give them."""
    described = Tool(
        "json_schema_2020_12_tool", "A schema with definitions.", _shown, "read", "pure", schema=DEFINITIONS
    )
    named = Tool("test_x_mcp_header", "Arguments that headers repeat.", _shown, "read", "pure", schema=HEADERS)
    own = [test_simple_text, test_image_content, test_error_handling, test_tool_with_progress, test_elicitation]
    return [*own, described, named]
