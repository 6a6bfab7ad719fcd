"""Fetches the offer of a server.

Lists may be endless, schemas may be invalid, and texts may contain hidden characters, so everything
is limited and cleaned. This module imports the MCP SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio
from hilum import estimate
from mcp import MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import PromptReference

from hilum_mcp.errors import ServerProtocolError, describe_error
from hilum_mcp.offer import Offer, OfferedPrompt, OfferedTool, PromptArgument
from hilum_mcp.results import join_title
from hilum_mcp.schema_repair import repair_schema
from hilum_mcp.text_cleaning import MAX_DESCRIPTION, clean_text

if TYPE_CHECKING:
    from mcp import Client

    from hilum_mcp.server_log import ServerLog

__all__ = ["clean_text", "complete", "fetch_offer", "list_resources", "watch_offer"]

T = TypeVar("T")
# A server decides how much it sends, and its offer is stored and becomes part of every request to
# the model.
MAX_PAGES = 100
MAX_ROWS = 1_000
MAX_SCHEMA = 65_536
MAX_OFFER = 4 << 20
MAX_LEFT_OUT = 20
MAX_INSTRUCTIONS = 2_000
MAX_NAME = 200
MAX_PROMPT_DESCRIPTION = 300
MAX_ARGUMENTS = 50
# Time limit in seconds for one page of a list.
PAGE_TIMEOUT = 30.0


async def fetch_offer(client: Client) -> Offer:
    """Return everything that a server offers.

    Raises:
        ServerProtocolError: The server does not respond in time.
        Exception: The connection failed, or a response violates the protocol.
    """
    capabilities = client.server_capabilities
    left_out: list[str] = []
    tools: list[OfferedTool] = []
    prompts: list[OfferedPrompt] = []
    # Some servers declare no capabilities at all, so hilum requests the tools of such servers
    # anyway.
    states_none = capabilities.prompts is None and capabilities.resources is None
    if capabilities.tools is not None or states_none:
        listed = await _fetch_pages(
            client.list_tools,
            "tools",
            left_out,
            lambda row: _read_tool(row, left_out),
        )
        # Model providers reject two tools with the same name.
        unique = {tool.name: tool for tool in listed}
        tools = _limit_size(list(unique.values()), left_out)
    if capabilities.prompts is not None:
        prompts = await _fetch_pages(
            client.list_prompts,
            "prompts",
            left_out,
            lambda row: _read_prompt(row, left_out),
        )
    return Offer(
        tuple(tools),
        tuple(prompts),
        capabilities.resources is not None,
        clean_text(client.instructions, MAX_INSTRUCTIONS),
        tuple(left_out[:MAX_LEFT_OUT]),
    )


async def watch_offer(
    client: Client,
    tools: bool,
    prompts: bool,
    changed: Callable[[], None],
    log: ServerLog,
) -> None:
    """Report changes to the offer until the stream ends.

    Returns at once if the protocol version has no such stream.

    Args:
        client: The client of the server.
        tools: Whether to watch the tools.
        prompts: Whether to watch the prompts.
        changed: A function to call on each change.
        log: The log of the server.
    """
    try:
        async with client.listen(
            tools_list_changed=tools, prompts_list_changed=prompts
        ) as notifications:
            async for _ in notifications:
                changed()
    except ListenNotSupportedError:
        return
    except (SubscriptionLost, MCPError, TimeoutError) as error:
        log.note(f"does not report changes: {describe_error(error)}")


async def list_resources(client: Client, max_row: int) -> list[str]:
    """Return a row for each resource and each resource template, and notes about the lists.

    Args:
        client: The client of the server.
        max_row: Maximum number of characters in a row.
    """

    def describe(uri: str, resource: Any) -> str:
        title = join_title(resource)
        kind = f" ({resource.mime_type})" if resource.mime_type else ""
        row = f"{uri}{kind} {title}".replace("\n", " ")
        return clean_text(row, max_row)

    notes: list[str] = []
    rows = await _fetch_pages(
        client.list_resources,
        "resources",
        notes,
        lambda row: describe(row.uri, row),
    )
    with suppress(MCPError):  # many servers have no resource templates and reject the request
        rows += await _fetch_pages(
            client.list_resource_templates,
            "resource_templates",
            notes,
            lambda row: describe(row.uri_template, row),
        )
    return rows + notes


async def complete(client: Client, prompt: str, argument: str, given: dict[str, str]) -> list[str]:
    """Return the server's suggestions for an argument of a prompt.

    Args:
        client: The client of the server.
        prompt: The prompt.
        argument: The argument.
        given: Known arguments.
    """
    if client.server_capabilities.completions is None:
        return []
    reference = PromptReference(type="ref/prompt", name=prompt)
    found = await client.complete(reference, {"name": argument, "value": ""}, given or None)
    return list(found.completion.values)


async def _fetch_pages(
    fetch: Callable[..., Awaitable[Any]],
    kind: str,
    left_out: list[str],
    read: Callable[[Any], T | None],
) -> list[T]:
    """Return all pages of a list, up to a limit.

    Args:
        fetch: A function that fetches one page.
        kind: The attribute of a response that contains the rows.
        left_out: The list to which notes about omitted parts are added.
        read: A function that reads one row; ``None`` omits the row.

    Raises:
        ServerProtocolError: A page of the list does not arrive in time.
    """
    found: list[T] = []
    cursor = None
    seen = set[str]()
    count = 0
    for _ in range(MAX_PAGES):
        page = await _fetch_page(fetch, cursor, kind)
        rows = getattr(page, kind)
        count += len(rows)
        for row in rows[: MAX_ROWS - len(found)]:
            item = read(row)
            if item is not None:
                found.append(item)
        cursor = page.next_cursor
        # A repeated cursor would return the same pages forever.
        if not cursor or cursor in seen or count > MAX_ROWS:
            break
        seen.add(cursor)
    if cursor or count > MAX_ROWS:
        used = f"only the first {len(found)} are used"
        left_out.append(f"Its list of {kind} is endless, so {used}.")
    return found


async def _fetch_page(fetch: Callable[..., Awaitable[Any]], cursor: str | None, kind: str) -> Any:
    with trio.move_on_after(PAGE_TIMEOUT):
        # The SDK's cache must not be used, because the server may have reported a change.
        return await fetch(cursor=cursor, cache_mode="refresh")
    raise ServerProtocolError(f"It did not list its {kind} within {PAGE_TIMEOUT:g} seconds.")


def _read_tool(row: Any, left_out: list[str]) -> OfferedTool | None:
    shown = f"The tool {row.name[:80]!r} is left out"
    if row.execution is not None and row.execution.task_support == "required":
        left_out.append(f"{shown}: it works only as a task, which hilum does not support.")
        return None
    schema = repair_schema(row.input_schema)
    # Model providers require these keys, and some servers omit them.
    schema = {"properties": {}, **schema, "type": "object"}
    encoded = msgspec.json.encode(schema)
    if len(encoded) > MAX_SCHEMA:
        limit = f"{MAX_SCHEMA >> 10} KB"
        left_out.append(f"{shown}: the schema of its arguments is larger than {limit}.")
        return None
    description = clean_text(row.description or row.title, MAX_DESCRIPTION)
    # A name may contain lone surrogates, which cannot be encoded.
    definition = f"{row.name}{description}".encode(errors="replace") + encoded
    read_only = row.annotations is not None and row.annotations.read_only_hint is True
    return OfferedTool(row.name, estimate(definition), description, schema, read_only)


def _limit_size(tools: list[OfferedTool], left_out: list[str]) -> list[OfferedTool]:
    """Return the first tools, up to a limit on their total size."""
    size = 0
    for number, tool in enumerate(tools):
        size += len(msgspec.json.encode(tool))
        if size > MAX_OFFER:
            limit = f"{MAX_OFFER >> 20} MB"
            left_out.append(
                f"Its tools take more than {limit}, so only the first {number} are used."
            )
            return tools[:number]
    return tools


def _read_prompt(row: Any, left_out: list[str]) -> OfferedPrompt | None:
    arguments = row.arguments or ()
    names = [row.name, *(argument.name for argument in arguments)]
    # Prompts become slash commands, which the user types.
    if len(names) > MAX_ARGUMENTS or not all(map(_can_be_typed, names)):
        shown = clean_text(row.name, 80)
        left_out.append(f"The prompt {shown!r} is left out: its names cannot be typed.")
        return None
    read = [
        PromptArgument(
            argument.name,
            clean_text(argument.description, MAX_PROMPT_DESCRIPTION),
            bool(argument.required),
        )
        for argument in arguments
    ]
    description = clean_text(row.description or row.title, MAX_PROMPT_DESCRIPTION)
    return OfferedPrompt(row.name, description, tuple(read))


def _can_be_typed(name: str) -> bool:
    return bool(name) and name == clean_text(name, MAX_NAME).replace("\n", " ")
