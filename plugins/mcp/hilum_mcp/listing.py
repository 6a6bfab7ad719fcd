"""What a server offers, asked for: lists that may have no end, schemas that may be none, texts that
may hide something.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio
from hilum import estimate

from hilum_mcp.offer import Argument, Offer, Offered, Prompted
from hilum_mcp.stdio import Broken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client

T = TypeVar("T")
MOST_PAGES = 100
MOST_TOOLS = 1_000
MOST_SCHEMA = 65_536
MOST_BYTES = 4 << 20
MOST_DEPTH = 40
MOST_ODD = 20
LONGEST_DESCRIPTION = 2_000
LONGEST_INSTRUCTIONS = 2_000
LONGEST_NAME = 200
MOST_ARGUMENTS = 50
PAGE_SECONDS = 30.0
"""How long one page of a list may take."""

_SEEN = "\n\t\u200c\u200d"
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_MAPS = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SCHEMAS = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
    )
)
_NUMBERS = frozenset(
    (
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
    )
)


async def ask(client: Client) -> Offer:
    """Ask a server for everything it offers.

    Raises:
        Broken: It does not answer.
        Exception: The connection broke, or an answer is not of the protocol.
    """
    has = client.server_capabilities
    odd = list[str]()
    tools: list[Offered] = []
    prompts: list[Prompted] = []
    # A server that names no abilities at all may be one that was adopted without being asked.
    if has.tools is not None or (has.prompts is None and has.resources is None):
        listed = await pages(client.list_tools, "tools", odd, lambda each: _tool(each, odd))
        tools = _bounded(list({tool.name: tool for tool in listed}.values()), odd)
    if has.prompts is not None:
        prompts = await pages(client.list_prompts, "prompts", odd, lambda each: _prompt(each, odd))
    said = text(client.instructions, LONGEST_INSTRUCTIONS)
    return Offer(
        tuple(tools), tuple(prompts), has.resources is not None, said, tuple(odd[:MOST_ODD])
    )


async def pages(
    ask: Callable[..., Awaitable[Any]], kind: str, odd: list[str], read: Callable[[Any], T | None]
) -> list[T]:
    """Return all pages of a list, as far as it has an end.

    Args:
        ask: Asks for one page.
        kind: What is listed, as the answer calls it.
        odd: Takes what is to be said of the list.
        read: Reads one of its rows; ``None`` leaves it out.

    Raises:
        Broken: A page does not come.
    """
    found: list[T] = []
    cursor = None
    seen = set[str]()
    count = 0
    for _ in range(MOST_PAGES):
        with trio.move_on_after(PAGE_SECONDS) as patience:
            page = await ask(cursor=cursor, cache_mode="refresh")
        if patience.cancelled_caught:
            raise Broken(f"It did not list its {kind} within {PAGE_SECONDS:g} seconds.")
        rows = getattr(page, kind)
        count += len(rows)
        found += [
            row for each in rows[: MOST_TOOLS - len(found)] if (row := read(each)) is not None
        ]
        cursor = page.next_cursor
        if not cursor or cursor in seen or count > MOST_TOOLS:
            break
        seen.add(cursor)
    if cursor or count > MOST_TOOLS:
        odd.append(f"It lists {kind} without an end; the first {len(found)} are taken.")
    return found


def _tool(each: Any, odd: list[str]) -> Offered | None:
    if each.execution is not None and each.execution.task_support == "required":
        odd.append(
            f"The tool {each.name[:80]!r} is left out: it works as a task only, which hilum does"
            " not have."
        )
        return None
    schema = mended(each.input_schema) if isinstance(each.input_schema, dict) else {}
    schema = {"properties": {}, **schema, "type": "object"}
    encoded = msgspec.json.encode(schema)
    if len(encoded) > MOST_SCHEMA:
        odd.append(
            f"The tool {each.name[:80]!r} is left out: the schema of its arguments is larger than"
            " 64 KB."
        )
        return None
    description = text(each.description or each.title, LONGEST_DESCRIPTION)
    size = estimate(f"{each.name}{description}".encode(errors="replace") + encoded)
    read_only = each.annotations is not None and each.annotations.read_only_hint is True
    return Offered(each.name, size, description, schema, read_only)


def _bounded(tools: list[Offered], odd: list[str]) -> list[Offered]:
    """Return the first tools, as many as are no burden."""
    size = 0
    for number, tool in enumerate(tools):
        size += len(msgspec.json.encode(tool))
        if size > MOST_BYTES:
            odd.append(
                f"Its tools take more than {MOST_BYTES >> 20} MB; the first {number} are taken."
            )
            return tools[:number]
    return tools


def _prompt(each: Any, odd: list[str]) -> Prompted | None:
    names = (each.name, *(a.name for a in each.arguments or ()))
    if len(names) > MOST_ARGUMENTS or any(
        name != text(name, LONGEST_NAME).replace("\n", " ") or not name for name in names
    ):
        odd.append(f"The prompt {text(each.name, 80)!r} is left out: nobody could type its names.")
        return None
    given = [
        Argument(a.name, text(a.description, 300), bool(a.required)) for a in each.arguments or ()
    ]
    return Prompted(each.name, text(each.description or each.title, 300), tuple(given))


def text(said: str | None, most: int) -> str:
    """Return what a server says without what cannot be seen: control and direction characters,
    tags; cut to a length.
    """
    seen = "".join(
        c for c in (said or "")[: 2 * most] if c in _SEEN or unicodedata.category(c) not in _UNSEEN
    ).strip()
    return seen if len(seen) <= most else f"{seen[: most - 2]} …"


def mended(schema: Any, depth: int = 0) -> Any:
    """Return a schema without what is none: providers refuse a whole request for one keyword that
    is wrong.
    """
    if isinstance(schema, bool) and depth:
        return schema
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return {}
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            kinds = [
                kind for kind in (value if isinstance(value, list) else [value]) if kind in _TYPES
            ]
            if kinds:
                found[key] = kinds if isinstance(value, list) else kinds[0]
        elif key in _MAPS:
            if isinstance(value, dict):
                found[key] = {name: mended(each, depth + 1) for name, each in value.items()}
        elif key in _LISTS or (key == "items" and isinstance(value, list)):
            if isinstance(value, list) and value:
                found[key] = [mended(each, depth + 1) for each in value]
        elif key in _SCHEMAS:
            if isinstance(value, dict | bool):
                found[key] = mended(value, depth + 1)
        elif key == "required":
            if isinstance(value, list):
                found[key] = list(dict.fromkeys(name for name in value if isinstance(name, str)))
        elif key in ("description", "title"):
            found[key] = text(str(value), LONGEST_DESCRIPTION)
        elif key in _NUMBERS:
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[key] = value
        elif key not in ("enum", "examples") or (isinstance(value, list) and value):
            found[key] = value
    return found
