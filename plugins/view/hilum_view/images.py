"""What faces must know about the images of prompts and of results."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hilum import Image, Text, find_media_type, identify_image, measure_image


class ImageFacts(msgspec.Struct, frozen=True):
    """An image that an event contains.

    Attributes:
        id: Its content id: a hash of its content, in hexadecimal digits.
        seq: Sequence number of the event that contains it.
        media_type: Its media type, as its first bytes say; the event's if they are unknown.
        size: Its size in bytes.
        width: Its width in pixels; 0 if unknown.
        height: Its height in pixels; 0 if unknown.
    """

    id: str
    seq: int
    media_type: str
    size: int
    width: int
    height: int


def describe_images(parts: Iterable[Text | Image], seq: int) -> tuple[ImageFacts, ...]:
    """Return the facts about the images among the parts of a message.

    Args:
        parts: The parts; images without data are left out.
        seq: Sequence number of the event that contains them.
    """
    found = []
    for part in parts:
        if not isinstance(part, Image) or not part.data:
            continue
        width, height = measure_image(part.data)
        found.append(
            ImageFacts(
                id=identify_image(part.data),
                seq=seq,
                media_type=find_media_type(part.data) or part.media_type,
                size=len(part.data),
                width=width,
                height=height,
            )
        )
    return tuple(found)
