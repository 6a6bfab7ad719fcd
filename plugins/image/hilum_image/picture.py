"""What an image is, told from its first bytes: nothing else that a provider sends is saved."""

from __future__ import annotations

import struct

import msgspec

ENDINGS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/webp": (".webp",),
    "image/gif": (".gif",),
}


class Picture(msgspec.Struct, frozen=True):
    """An image.

    Args:
        data: The file.
        media_type: For example ``image/png``.
        width: In pixels; 0 when it is not told.
        height: In pixels; 0 when it is not told.
    """

    data: bytes
    media_type: str
    width: int = 0
    height: int = 0

    @property
    def size(self) -> str:
        """Width and height, as ``1024x1024``; empty when they are not known."""
        return f"{self.width}x{self.height}" if self.width else ""

    @property
    def whole(self) -> bool:
        """Whether the file goes on to the end that its format has: what was cut off on its way does
        not.
        """
        match self.media_type:
            case "image/png":
                return b"IEND" in self.data[-64:]
            case "image/jpeg":
                return b"\xff\xd9" in self.data[-64:]
            case "image/webp":
                return len(self.data) >= 8 + int.from_bytes(self.data[4:8], "little")
        return self.data.rstrip(b"\0").endswith(b";")

    @property
    def transparent(self) -> bool:
        """Whether it is a PNG in colour with an alpha channel, which all providers take as a
        mask.
        """
        return self.media_type == "image/png" and self.data[25:26] == b"\x06"


def look(data: bytes) -> Picture | None:
    """Tell what image a file is; ``None`` for anything else.

    PNG (its specification, section 11.2.1), JPEG (ITU T.81, B.2.2), WebP (RFC 9649) and GIF (87a
    and 89a).
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return Picture(data, "image/png", *struct.unpack(">II", data[16:24]))
    if data.startswith(b"\xff\xd8\xff"):
        return Picture(data, "image/jpeg", *_jpeg(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Picture(data, "image/webp", *_webp(data))
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return Picture(data, "image/gif", *struct.unpack("<HH", data[6:10]))
    return None


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        mark = data[at + 1]
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return 0, 0
