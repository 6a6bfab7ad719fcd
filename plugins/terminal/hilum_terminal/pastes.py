"""Pasted text and images, which are inserted as text or as chips.

A *chip* stands for a long paste or an image. In the editor's text a chip is a single character, so
that moving, deleting and undoing treat it as one unit without special cases. These characters are
private code points, which `clean_text` escapes in all other text, so text that merely looks like a
chip is not a chip.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

import attrs

MAX_INLINE_CHARACTERS = 2000
MAX_INLINE_LINES = 20
# Code points at the end of the last private Unicode plane, which symbol fonts do not use.
_FIRST_CHIP = 0x10E000
_LAST_CHIP = 0x10FFFD
CHIP_RANGE = f"{chr(_FIRST_CHIP)}-{chr(_LAST_CHIP)}"
_CHIP = re.compile(f"[{CHIP_RANGE}]")
_LINE_END = re.compile(r"\r\n?")
# Complete sequences are removed as a whole, because removing only Esc would leave "[31m".
_SEQUENCES = re.compile(
    r"\x1b\[[ -?]*[@-~]|\x1b[\]P_^X][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]+[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_MAX_PATHS_LENGTH = 8192


@attrs.frozen
class Chip:
    """A long paste or an image.

    Attributes:
        character: The character that represents the chip in the text.
        label: What the user sees.
        text: The pasted text, or a reference to the image with its path, such as ``[image #1:
            /tmp/plan.png]``.
    """

    character: str
    label: str
    text: str


class Chips:
    """The chips of one editor. Pastes and images are counted separately.

    Attributes:
        image_paths: The paths of all images that were ever added. The text of a prompt refers to an
            image by its path, even after the chip is gone.
    """

    def __init__(self) -> None:
        self.image_paths: list[str] = []
        self._chips: dict[str, Chip] = {}
        self._pastes = 0
        self._images = 0

    def add_paste(self, text: str) -> str:
        """Add a paste; return its character, or the text itself if there are too many chips."""
        character = self._next_character()
        if not character:
            return text
        self._pastes += 1
        lines = _count_lines(text)
        unit = "line" if lines == 1 else "lines"
        size = format_size(len(text.encode("utf-8", "replace")))
        label = f"[paste #{self._pastes} · {lines:,} {unit} · {size}]"
        self._chips[character] = Chip(character, label, text)
        return character

    def add_image(self, path: str, name: str = "") -> str:
        """Add an image; return its character, or its path if there are too many chips."""
        character = self._next_character()
        if not character:
            return path
        self._images += 1
        self.image_paths.append(path)
        shown = clean_text(name or PurePath(path).name).replace("\n", " ").replace("\t", " ")
        label = f"[image #{self._images} · {shown}]"
        # The user needs to see only the name; the path identifies the image when it is sent.
        text = f"[image #{self._images}: {path}]"
        self._chips[character] = Chip(character, label, text)
        return character

    def find(self, character: str) -> Chip | None:
        """Return the chip for a character, or ``None`` for an ordinary character."""
        return self._chips.get(character)

    def expand(self, text: str) -> str:
        """Return text with chips replaced by pasted text and image paths."""
        return self._replace(text, lambda chip: chip.text)

    def show(self, text: str) -> str:
        """Return text with chips replaced by their labels."""
        return self._replace(text, lambda chip: chip.label)

    def clean(self, text: str) -> str:
        """Return the text cleaned by ``clean_text``, but keep the characters of existing chips."""
        return clean_text(text, self._chips)

    def keep_only(self, texts: Iterable[str]) -> None:
        """Remove the chips that occur in none of the texts; without chips, numbering restarts."""
        used: set[str] = set()
        for text in texts:
            used.update(_CHIP.findall(text))
        self._chips = {name: chip for name, chip in self._chips.items() if name in used}
        if not self._chips:
            self._pastes = 0
            self._images = 0

    def _next_character(self) -> str:
        """Return an unused chip character; empty if there is none."""
        newest = max(self._chips, default="")
        code = ord(newest) + 1 if newest else _FIRST_CHIP
        return chr(code) if code <= _LAST_CHIP else ""

    def _replace(self, text: str, choose: Callable[[Chip], str]) -> str:
        if not self._chips:
            return text

        def choose_text(match: re.Match[str]) -> str:
            chip = self._chips.get(match[0])
            return match[0] if chip is None else choose(chip)

        return _CHIP.sub(choose_text, text)


def clean_text(text: str, chips: Iterable[str] = ()) -> str:
    """Return text without escape sequences and other control characters.

    Line endings become newlines, and tabs are kept. Characters that represent chips are escaped.

    Args:
        text: Any text.
        chips: Chip characters to keep.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_END.sub("\n", text)
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    text = _CONTROLS.sub("", text)
    if text.isascii():
        return text
    text = _SURROGATES.sub("\ufffd", text)
    kept = frozenset(chips)

    def escape(match: re.Match[str]) -> str:
        return match[0] if match[0] in kept else f"\\U{ord(match[0]):08x}"

    return _CHIP.sub(escape, text)


def is_long(text: str) -> bool:
    """Return whether a pasted text becomes a chip."""
    return len(text) > MAX_INLINE_CHARACTERS or _count_lines(text) > MAX_INLINE_LINES


def format_size(size: int) -> str:
    """Format a number of bytes for a label."""
    if size < 1000:
        return f"{size} B"
    if size < 999_950:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:,.1f} MB"


def find_image_paths(text: str, file_exists: Callable[[str], bool]) -> list[str]:
    """Return the paths if a text consists only of paths of existing images, otherwise ``[]``.

    Terminals paste the paths of dragged files in several forms: quoted, with escaped spaces, as
    ``file://`` URLs, or unchanged. A ``~`` at the beginning is expanded.
    """
    stripped = text.strip()
    if not stripped or len(stripped) > _MAX_PATHS_LENGTH:
        return []
    whole = _find_image(stripped, file_exists)
    if whole:
        return [whole]
    words = []
    for word in _split_words(stripped):
        path = _read_file_url(word) if word.startswith("file://") else word
        if not _is_image(path):
            return []
        words.append(path)
    paths = [_find_image(word, file_exists) for word in words]
    return paths if all(paths) else []


def _find_image(path: str, file_exists: Callable[[str], bool]) -> str:
    """Return the path of an existing image, with ``~`` expanded; empty if there is none."""
    if not _is_image(path):
        return ""
    if file_exists(path):
        return path
    expanded = os.path.expanduser(path)
    return expanded if expanded != path and file_exists(expanded) else ""


_WORD_PART = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|(\s+)|([^\s'\"\\]+|.)", re.DOTALL)


def _split_words(text: str) -> list[str]:
    """Split text into words as a shell does; an unbalanced quote is an ordinary character."""
    words: list[str] = []
    word: str | None = None
    for match in _WORD_PART.finditer(text):
        single, double, escaped, space, plain = match.groups()
        if space is not None:
            if word is not None:
                words.append(word)
            word = None
            continue
        if double is not None:
            part = re.sub(r"\\([\"\\$`])", r"\1", double)
        else:
            part = single or escaped or plain or ""
        word = part if word is None else word + part
    if word is not None:
        words.append(word)
    return words


def _read_file_url(url: str) -> str:
    """Return the path of a ``file://`` URL; empty for another host's file or an invalid URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.netloc not in ("", "localhost"):
        return ""
    # "#" and "?" may be part of a file name that was not percent-encoded.
    path = url[len("file://") + len(parts.netloc) :]
    return unquote(path)


def _is_image(path: str) -> bool:
    # The path becomes part of the text, which must contain neither control characters nor unused
    # chip characters.
    if "\n" in path or _CONTROLS.search(path) or _CHIP.search(path):
        return False
    return PurePath(path).suffix.lower() in _IMAGE_SUFFIXES


def _count_lines(text: str) -> int:
    """Return the number of lines; a trailing newline does not begin another line."""
    return text.count("\n") + (not text.endswith("\n"))
