"""Reads the content blocks of a prompt: text, images, links and embedded resources.

What the editor embeds tells which files the user works on; it becomes the state of the workspace.
Text of resources is data, which the agent reads as a separate block, and never the user's words.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
from hilum import Image, Workspace

from hilum_acp.json_rpc import INVALID_PARAMS, RpcError

MAX_OPEN_FILES = 3
"""Number of open files whose text is sent as part of the state; others are attached."""
# Zed writes `#L3:9`, other editors `#L3-L9` or `#L3`; lines count from 1.
_LINES = re.compile(r"L?(\d{1,9})(?:[-:]L?(\d{1,9}))?")


@attrs.define
class ReadPrompt:
    """A prompt, as ``Session.prompt`` takes it.

    Attributes:
        text: The user's text.
        attached: Texts of resources.
        images: Images.
        state: The state of the user's workspace.
    """

    text: str = ""
    attached: str = ""
    images: list[Image] = attrs.field(factory=list)
    state: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class ResourceName:
    """What a URI names.

    Attributes:
        shown: The path for messages and prompts, relative to the workspace if it is in there, or
            the URI.
        path: The file; ``None`` if the URI names none, or one outside the workspace.
        lines: First and last line; ``None`` for the whole resource.
    """

    shown: str
    path: Path | None = None
    lines: tuple[int, int] | None = None


def read_prompt(blocks: Sequence[Mapping[str, Any]], workspace: Workspace) -> ReadPrompt:
    """Read the content blocks of a prompt.

    Raises:
        RpcError: A block is malformed, or of a kind that hilum did not announce.
    """
    reader = _PromptReader(workspace)
    for block in blocks:
        reader.add(block)
    return reader.finish()


def parse_uri(uri: str, workspace: Workspace) -> ResourceName:
    """Return what a URI names."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ResourceName(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ResourceName(uri)
    path = Path(unquote(parts.path))
    match = _LINES.fullmatch(parts.fragment)
    lines = None
    if match is not None:
        first = max(int(match[1]), 1)
        lines = (first, max(int(match[2] or first), first))
    for root in workspace.roots:
        if path.is_relative_to(root):
            return ResourceName(workspace.relative(path), path, lines)
    return ResourceName(str(path), None, lines)


class _PromptReader:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._texts: list[str] = []
        self._attached: list[str] = []
        self._images: list[Image] = []
        self._open_files: list[dict[str, Any]] = []
        self._state: dict[str, Any] = {}

    def add(self, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._texts.append(_text(block, "text"))
        elif kind == "image":
            self._images.append(_read_image(block))
        elif kind == "resource_link":
            name = parse_uri(_text(block, "uri"), self._workspace)
            self._texts.append(_mention(name))
        elif kind == "resource":
            self._add_resource(block.get("resource"))
        else:
            raise RpcError(INVALID_PARAMS, f"hilum reads no content blocks of type {kind!r}.")

    def finish(self) -> ReadPrompt:
        if self._open_files:
            self._state["open_files"] = self._open_files
        return ReadPrompt(
            "".join(self._texts), "\n\n".join(self._attached), self._images, self._state
        )

    def _add_resource(self, resource: object) -> None:
        if not isinstance(resource, Mapping):
            raise RpcError(INVALID_PARAMS, "The resource is not an object.")
        name = parse_uri(_text(resource, "uri"), self._workspace)
        self._texts.append(_mention(name))
        if isinstance(resource.get("text"), str):
            self._add_text(name, resource["text"])
        elif str(resource.get("mimeType", "")).startswith("image/"):
            media_type = str(resource["mimeType"])
            self._images.append(Image(media_type, _decode(_text(resource, "blob"))))
        else:
            size = len(_decode(_text(resource, "blob")))
            self._attached.append(f"[{name.shown} is a binary resource of {size:,} bytes.]")

    def _add_text(self, name: ResourceName, text: str) -> None:
        if name.path is not None and name.lines is None:
            if len(self._open_files) < MAX_OPEN_FILES:
                self._open_files.append({"path": name.shown, "text": text})
                return
        elif name.path is not None and name.lines is not None and "selection" not in self._state:
            first, last = name.lines
            self._state["active_file"] = name.shown
            self._state["cursor"] = {"line": first}
            self._state["selection"] = {"start_line": first, "end_line": last}
        where = name.shown
        if name.lines is not None:
            where += f", lines {name.lines[0]}-{name.lines[1]}"
        self._attached.append(f"[{where}]\n{text}")


def _mention(name: ResourceName) -> str:
    """Return the words for a resource in the user's text."""
    lines = f" (lines {name.lines[0]}-{name.lines[1]})" if name.lines else ""
    return f"`{name.shown}`{lines}"


def _read_image(block: Mapping[str, Any]) -> Image:
    return Image(_text(block, "mimeType"), _decode(_text(block, "data")))


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise RpcError(INVALID_PARAMS, "The data of a content block is not base64.") from None


def _text(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"A content block has no text {name!r}.")
    return value
