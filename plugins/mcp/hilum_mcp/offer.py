"""What a server offers: tools, prompts, resources. Listed in full, kept on disk, so that the next session need not start it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import data_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client

MOST_PAGES, MOST_TOOLS, MOST_SCHEMA = 100, 1_000, 65_536
LONGEST_DESCRIPTION, LONGEST_INSTRUCTIONS = 2_000, 2_000


class Offered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a server.

    Args:
        name: What the server calls it.
        description: What it does.
        schema: JSON Schema of its arguments.
    """

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class Argument(msgspec.Struct, frozen=True, omit_defaults=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class Prompted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt of a server."""

    name: str
    description: str = ""
    arguments: tuple[Argument, ...] = ()


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server offers.

    Args:
        tools: Its tools, in its order.
        prompts: Its prompts.
        resources: Whether it has resources.
        instructions: What it says of itself to the model.
        left_out: What could not be taken, a sentence each.
    """

    tools: tuple[Offered, ...] = ()
    prompts: tuple[Prompted, ...] = ()
    resources: bool = False
    instructions: str = ""
    left_out: tuple[str, ...] = ()


async def ask(client: Client) -> Offer:
    """Ask a server for everything it offers.

    Raises:
        Exception: The connection broke, or an answer is not of the protocol.
    """
    has, odd = client.server_capabilities, list[str]()
    tools: list[Offered] = []
    # A server that names no abilities at all may be one that was adopted without being asked.
    if has.tools is not None or (has.prompts is None and has.resources is None):
        once = {each.name: each for each in await pages(client.list_tools, "tools", odd)}
        tools = [tool for each in once.values() if (tool := _tool(each, odd)) is not None]
    prompts = [_prompt(each) for each in await pages(client.list_prompts, "prompts", odd)] if has.prompts else []
    said = (client.instructions or "").strip()
    return Offer(tuple(tools), tuple(prompts), has.resources is not None, _cut(said, LONGEST_INSTRUCTIONS), tuple(odd))


async def pages(ask: Callable[..., Awaitable[Any]], kind: str, odd: list[str]) -> list[Any]:
    """Give all pages of a list, as far as it has an end.

    Args:
        ask: Asks for one page.
        kind: What is listed, as the answer calls it.
        odd: Takes what is to be said of the list.
    """
    found: list[Any] = []
    cursor, seen = None, set[str]()
    for _ in range(MOST_PAGES):
        page = await ask(cursor=cursor, cache_mode="refresh")
        found += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor or cursor in seen or len(found) > MOST_TOOLS:
            break
        seen.add(cursor)
    if cursor or len(found) > MOST_TOOLS:
        odd.append(f"It lists {kind} without an end; the first {min(len(found), MOST_TOOLS)} are taken.")
    return found[:MOST_TOOLS]


def _tool(each: Any, odd: list[str]) -> Offered | None:
    if each.execution is not None and each.execution.task_support == "required":
        odd.append(f"The tool {each.name[:80]!r} is left out: it works as a task only, which hilum does not have.")
        return None
    schema = each.input_schema if isinstance(each.input_schema, dict) else {}
    schema = {"type": "object", "properties": {}, **schema}
    if len(msgspec.json.encode(schema)) > MOST_SCHEMA:
        odd.append(f"The tool {each.name[:80]!r} is left out: the schema of its arguments is larger than 64 KB.")
        return None
    return Offered(each.name, _cut((each.description or each.title or "").strip(), LONGEST_DESCRIPTION), schema)


def _prompt(each: Any) -> Prompted:
    given = [Argument(a.name, _cut(a.description or "", 300), bool(a.required)) for a in each.arguments or ()]
    return Prompted(each.name, _cut((each.description or each.title or "").strip(), 300), tuple(given))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


# --- on disk --------------------------------------------------------------------------------------------------------------


def offer_file(digest: str) -> Path:
    """Give the file of a server's offer.

    Args:
        digest: ``Server.digest``: another definition is another server.
    """
    return data_folder() / "mcp" / "offers" / f"{digest.rpartition(':')[2][:40]}.json"


def known(digest: str) -> Offer | None:
    """Give what a server offered last, ``None`` if that is not known. Blocks for the time of reading a file."""
    try:
        return msgspec.json.decode(offer_file(digest).read_bytes(), type=Offer)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None


def keep(digest: str, offer: Offer) -> None:
    """Write down what a server offers. Blocks. Where it cannot be written, the server is started next time."""
    file = offer_file(digest)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as new:
            new.write(msgspec.json.encode(offer))
        os.replace(new.name, file)
    except OSError:
        pass
