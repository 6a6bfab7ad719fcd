"""Recognizes image files by their first bytes, because hilum saves nothing but images."""

from __future__ import annotations

import msgspec
from hilum import find_media_type, measure_image

SUFFIXES = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/webp": (".webp",),
    "image/gif": (".gif",),
}
_MIN_LENGTHS = {"image/png": 24, "image/gif": 10}
"""Length in bytes of the part of a file that contains the size of the image."""


class ImageFile(msgspec.Struct, frozen=True):
    """An image file.

    Args:
        data: The content.
        media_type: The media type, for example ``image/png``.
        width: The width in pixels; 0 if it is unknown.
        height: The height in pixels; 0 if it is unknown.
    """

    data: bytes
    media_type: str
    width: int = 0
    height: int = 0

    @property
    def size(self) -> str:
        """The width and height in the form ``1024x1024``; empty if they are unknown."""
        return f"{self.width}x{self.height}" if self.width else ""

    @property
    def is_complete(self) -> bool:
        """Whether the file ends as its format requires, which a truncated file does not."""
        match self.media_type:
            # The last chunk or marker is searched for, because some encoders add bytes after it.
            case "image/png":
                return b"IEND" in self.data[-64:]
            case "image/jpeg":
                return b"\xff\xd9" in self.data[-64:]
            case "image/webp":  # the header contains the file's length
                return len(self.data) >= 8 + int.from_bytes(self.data[4:8], "little")
        # GIF ends with the trailer 0x3B, which is ";"; some encoders pad the file with zeros.
        return self.data.rstrip(b"\0").endswith(b";")

    @property
    def has_alpha(self) -> bool:
        """Whether the file is a colour PNG with an alpha channel, which all providers accept."""
        # Colour type 6 in IHDR (section 11.2.1). Not all providers accept other kinds of
        # transparency.
        return self.media_type == "image/png" and self.data[25:26] == b"\x06"


def parse_image(data: bytes) -> ImageFile | None:
    """Return the image in a file, or ``None`` if it is not an image in a known format.

    The formats are PNG, JPEG, WebP and GIF.
    """
    media_type = find_media_type(data)
    # Without its header, a file cannot be shown.
    if not media_type or len(data) < _MIN_LENGTHS.get(media_type, 0):
        return None
    return ImageFile(data, media_type, *measure_image(data))
