"""The images that the user pastes: found in a prompt's text, and read when the prompt is sent.

The text of a prompt refers to an image by its path, as in ``[image #1: /tmp/plan.png]``. The
reference stays part of the text while the prompt is queued, given back or edited. Only paths that
the user pasted as images count, so that a reference in a pasted text attaches nothing.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath

import trio
from hilum import Image, UsageError, open_temporary_folder, read_image
from hilum.errors import E_NOT_FOUND

from hilum_terminal.system_clipboard import SystemClipboard

_NUMBERED_REFERENCE = re.compile(r"( *)\[image #(\d+): ([^\n\]]+)\]( *)")
_REFERENCE = re.compile(r"\[image #\d+: ([^\n\]]+)\]")


def shorten_references(text: str) -> str:
    """Return a prompt in which references to images name only the files, as in the input."""

    def shorten(match: re.Match[str]) -> str:
        # The input puts a space after an image, and the user often types another one.
        before, number, path, after = match.groups()
        return f"{before[:1]}[image #{number} · {PurePath(path).name}]{after[:1]}"

    return _NUMBERED_REFERENCE.sub(shorten, text)


class PromptImages:
    """The images that the user has pasted into the input since the program started."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._restored: dict[str, Image] = {}
        self._folder: Path | None = None
        self._count = 0

    def remember(self, paths: Iterable[str]) -> None:
        """Remember that the user pasted images, given by their paths."""
        for path in paths:
            # A file that is pasted again is read again.
            self._restored.pop(path, None)
            if path not in self._paths:
                self._paths.append(path)

    def restore(self, text: str, images: Sequence[Image]) -> None:
        """Remember the images of a prompt that an earlier process did not send.

        Args:
            text: The prompt, with a reference to each of the images.
            images: The images in the order of the references. They are sent as they are, because
                the files may have changed or been deleted.
        """
        paths = list(dict.fromkeys(_REFERENCE.findall(text)))
        if len(paths) == len(images):
            self.remember(paths)
            self._restored |= dict(zip(paths, images, strict=True))

    def find(self, text: str) -> list[str]:
        """Return the paths of the pasted images that a prompt refers to, in their order."""
        places = [(text.find(f": {path}]"), path) for path in self._paths]
        return [path for place, path in sorted(places) if place >= 0]

    def has_others(self, text: str) -> bool:
        """Return whether a prompt refers to images that the user has not pasted since the start."""
        return any(path not in self._paths for path in _REFERENCE.findall(text))

    async def read(self, text: str) -> list[Image]:
        """Read the images that a prompt refers to.

        Raises:
            UsageError: An image cannot be read, or models do not accept it.
        """
        images = []
        for path in self.find(text):
            if path in self._restored:
                images.append(self._restored[path])
                continue
            # A network file system may not answer.
            read = await trio.to_thread.run_sync(read_image, path, abandon_on_cancel=True)
            images.append(read)
        return images

    async def save_clipboard(self, clipboard: SystemClipboard) -> str:
        """Save the image in the system's clipboard to a file, and return the file's path.

        The file exists until the program ends.

        Args:
            clipboard: The system's clipboard.

        Raises:
            UsageError: The clipboard contains no image that models accept, or no program can read
                the clipboard.
        """
        data = await clipboard.read_image()
        if not data:
            raise UsageError(
                "There is no image in the clipboard.",
                code=E_NOT_FOUND,
                hint="Copy an image, or paste the path of an image file.",
            )
        if self._folder is None:
            opened = ExitStack()
            self._folder = opened.enter_context(open_temporary_folder("clipboard"))
            atexit.register(opened.close)
        self._count += 1
        path = self._folder / f"clipboard-{self._count}.png"
        await trio.Path(path).write_bytes(data)
        # A file that models do not accept is an error now, not when the prompt is sent.
        await trio.to_thread.run_sync(read_image, path)
        return str(path)
