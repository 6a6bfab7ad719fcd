"""What a server offers: tools, prompts, resources.

Kept on disk, so that the next session need not start it.
"""

# Annotations are no texts here nor in `quick`: the first decoding would compile each, in every
# session.

import os
from pathlib import Path
from typing import Any

import msgspec
from hilum import data_folder


class Offered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a server.

    Args:
        name: What the server calls it.
        size: What its definition takes in a prompt, in tokens.
        description: What it does.
        schema: JSON Schema of its arguments.
        read_only: Whether the server claims that it changes nothing (``readOnlyHint``). A claim,
            and no more.
    """

    name: str
    size: int
    description: str = ""
    schema: dict[str, Any] = {}
    read_only: bool = False


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


# --- on disk --------------------------------------------------------------------------------------


def offer_file(digest: str) -> Path:
    """Return the file of a server's offer.

    Args:
        digest: ``Server.digest``: another definition is another server.
    """
    return data_folder() / "mcp" / "offers" / f"{digest.rpartition(':')[2][:40]}.json"


def known(digest: str) -> Offer | None:
    """Return what a server offered last, ``None`` if that is not known.

    Blocks for the time of reading a file.
    """
    try:
        return msgspec.json.decode(offer_file(digest).read_bytes(), type=Offer)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None


def keep(digest: str, offer: Offer) -> None:
    """Write down what a server offers.

    Blocks. Where it cannot be written, the server is started next time.
    """
    put(offer_file(digest), msgspec.json.encode(offer))


def put(file: Path, data: bytes) -> None:
    """Write a file that only saves time: where it cannot be written, the next session goes without.
    Blocks.
    """
    import tempfile

    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as new:
            new.write(data)
        os.replace(new.name, file)
    except OSError:
        pass
