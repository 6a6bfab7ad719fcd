"""Recognizes image files by their first bytes, because hilum saves nothing but images."""

from __future__ import annotations

import struct

import msgspec

SUFFIXES = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/webp": (".webp",),
    "image/gif": (".gif",),
}
# JPEG markers in the range of frame headers that are not frame headers: DHT, JPG and DAC (ITU T.81,
# table B.1).
_NO_FRAME = (0xC4, 0xC8, 0xCC)


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

    The formats are PNG (its specification, section 11.2.1), JPEG (ITU T.81, B.2.2), WebP (RFC 9649)
    and GIF (87a and 89a).
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return ImageFile(data, "image/png", *struct.unpack(">II", data[16:24]))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageFile(data, "image/jpeg", *_read_jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ImageFile(data, "image/webp", *_read_webp_size(data))
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return ImageFile(data, "image/gif", *struct.unpack("<HH", data[6:10]))
    return None


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    # The frame header contains the size. Each segment before the frame header is skipped, using its
    # length.
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            # Marker (2 bytes), length (2) and precision (1) come first.
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _read_webp_size(data: bytes) -> tuple[int, int]:
    if len(data) < 25:
        return 0, 0
    # A lossless file may be shorter than the header of another format.
    data = data.ljust(30, b"\0")
    # RFC 9649, sections 2.7, 2.5 and 2.6: extended, lossy and lossless files.
    match data[12:16]:
        case b"VP8X":
            width = int.from_bytes(data[24:27], "little")
            height = int.from_bytes(data[27:30], "little")
            # The file contains each dimension minus one.
            return width + 1, height + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            # The upper two bits are a scaling hint.
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":  # two 14-bit numbers
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return 0, 0
