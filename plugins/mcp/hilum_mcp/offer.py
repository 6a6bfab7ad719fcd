"""The offer of a server: tools, prompts and resources.

The offer is cached on disk, so that the next session need not start the server.
"""

# Annotations are evaluated here and in `session_cache` (no `from __future__ import annotations`):
# otherwise, msgspec would compile each annotation from a string when a session first decodes data.

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hilum import data_folder, make_private_folder


class OfferedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a server.

    Args:
        name: The server's name for the tool.
        size: The size of the tool's definition in a prompt, in tokens.
        description: What the tool does.
        schema: The JSON Schema of the arguments.
        read_only: Whether the server claims that the tool changes nothing (``readOnlyHint``). hilum
            does not rely on the claim.
    """

    name: str
    size: int
    description: str = ""
    schema: dict[str, Any] = {}
    read_only: bool = False


class PromptArgument(msgspec.Struct, frozen=True, omit_defaults=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class OfferedPrompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt of a server."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a server offers.

    Args:
        tools: The tools, in the server's order.
        prompts: The prompts.
        resources: Whether the server has resources.
        instructions: The server's instructions to the model.
        left_out: Descriptions of omitted parts of the offer, one sentence each.
    """

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: bool = False
    instructions: str = ""
    left_out: tuple[str, ...] = ()


def offer_file(digest: str) -> Path:
    """Return the path of the cache file for a server's offer.

    Args:
        digest: ``ServerConfig.digest``; a different configuration is treated as a different server.
    """
    name = digest.rpartition(":")[2][:40]
    return data_folder() / "mcp" / "offers" / f"{name}.json"


def load_offer(digest: str) -> Offer | None:
    """Return the cached offer of a server, or ``None`` if there is none.

    Blocks.
    """
    try:
        return msgspec.json.decode(offer_file(digest).read_bytes(), type=Offer)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None


def save_offer(digest: str, offer: Offer) -> None:
    """Cache the offer of a server. Blocks.

    If the cache cannot be written, the next session starts the server.
    """
    write_cache(offer_file(digest), msgspec.json.encode(offer))


def write_cache(file: Path, data: bytes) -> None:
    """Write a cache file. A failure is ignored, because the cache only saves time. Blocks."""
    try:
        make_private_folder(file.parent)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as new:
            new.write(data)
        # The file is replaced atomically, so that no session reads an incomplete one.
        os.replace(new.name, file)
    except OSError:
        pass
