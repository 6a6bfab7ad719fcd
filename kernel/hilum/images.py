"""Images: reading those that a user sends with a prompt, their limits, and what a header tells."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Sequence

from hilum.errors import E_BAD_ARGS, E_NOT_FOUND, UsageError
from hilum.messages import Image

MAX_BYTES = 3_900_000
"""Maximum size of an image in bytes.

Providers reject larger images, and a conversation that contains one. Anthropic's limit of 5 MiB
applies to the base64 text, which is a third longer than the image.
"""
MAX_TOTAL_BYTES = 15_000_000
"""Maximum size of all images in one prompt, in bytes: as base64, less than Anthropic's and Gemini's
limits for a request."""
MAX_IMAGES = 20
"""Maximum number of images in one prompt. Model providers reject requests with many images."""
# The first bytes of the formats that all providers accept. WebP has its size in between.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# JPEG markers in the range of frame headers that are not frame headers: DHT, JPG and DAC (ITU T.81,
# table B.1).
_NO_FRAME = (0xC4, 0xC8, 0xCC)
_ID_BYTES = 16
MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def read_image(path: str | os.PathLike[str]) -> Image:
    """Read an image file for ``Session.prompt``. Blocks.

    The content decides the format, whatever the name of the file is.

    Args:
        path: The file: PNG, JPEG, GIF or WebP, with at most ``MAX_BYTES``.

    Raises:
        UsageError: The file cannot be read (``E_NOT_FOUND``), is no image of these formats, or is
            too large (``E_BAD_ARGS``).
    """
    shown = os.fspath(path)
    try:
        data = _read_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"The image {shown} cannot be read: {reason}.",
            code=E_NOT_FOUND,
            hint="Check the path.",
        ) from None
    media_type = find_media_type(data)
    if not media_type:
        raise UsageError(
            f"{shown} is not a PNG, JPEG, GIF or WebP image.",
            code=E_BAD_ARGS,
            hint="Convert the image, for example to PNG.",
        )
    image = Image(media_type, data)
    check_images([image], shown)
    return image


def _read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the beginning of a regular file, one byte more than an image may have.

    Raises:
        OSError: The file cannot be read, or is no regular file.
        ValueError: The path is invalid.
    """
    # Opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def find_media_type(data: bytes) -> str:
    """Return the media type of an image by its first bytes; empty if the format is unknown."""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return "image/webp" if is_webp else ""


def identify_image(data: bytes) -> str:
    """Return the content id of an image: a hash of its content, in hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=_ID_BYTES).hexdigest()


def measure_image(data: bytes) -> tuple[int, int]:
    """Return the width and height of an image in pixels, from its header; zeros if unknown.

    The formats are PNG (its specification, section 11.2.1), JPEG (ITU T.81, B.2.2), WebP (RFC 9649)
    and GIF (87a and 89a).
    """
    media_type = find_media_type(data)
    width = 0
    height = 0
    if media_type == "image/png" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
    elif media_type == "image/gif" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
    elif media_type == "image/jpeg":
        width, height = _read_jpeg_size(data)
    elif media_type == "image/webp":
        width, height = _read_webp_size(data)
    return width, height


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


def check_images(images: Sequence[Image], name: str = "An image") -> None:
    """Check that a prompt's images can be sent to a model.

    Args:
        images: The images.
        name: The name of a single image, for the error.

    Raises:
        UsageError: There are too many images, or an image is too large, empty, in a format that
            models do not accept, or in another format than its media type says.
    """
    if len(images) > MAX_IMAGES:
        raise UsageError(
            f"The prompt has {len(images)} images; the maximum is {MAX_IMAGES}.",
            code=E_BAD_ARGS,
            hint="Send them in several prompts.",
        )
    if sum(len(image.data) for image in images) > MAX_TOTAL_BYTES:
        raise UsageError(
            f"The images are larger than {MAX_TOTAL_BYTES // 1_000_000} MB together.",
            code=E_BAD_ARGS,
            hint="Send them in several prompts, or make them smaller.",
        )
    for image in images:
        if len(image.data) > MAX_BYTES:
            raise UsageError(
                f"{name} is larger than {MAX_BYTES / 1_000_000:.1f} MB.",
                code=E_BAD_ARGS,
                hint="Make the image smaller.",
            )
        # A provider would reject the image with every later request, and a browser that guesses the
        # type must not find HTML.
        found = find_media_type(image.data)
        if not found or image.media_type not in MEDIA_TYPES:
            raise UsageError(
                f"{name} is not a PNG, JPEG, GIF or WebP image.",
                code=E_BAD_ARGS,
                hint="Convert the image, for example to PNG.",
            )
        if found != image.media_type:
            raise UsageError(
                f"{name} is {found}, not {image.media_type}.",
                code=E_BAD_ARGS,
                hint="Give the media type of the content.",
            )
