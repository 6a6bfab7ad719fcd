"""The size of an image in pixels, read from its header; no content makes the reader fail."""

import random
import struct

import pytest
from hilum import identify_image, measure_image

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"\x08\x06"
GIF = b"GIF89a" + struct.pack("<HH", 30, 20)
APP0 = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
JPEG = b"\xff\xd8" + APP0 + b"\xff\xc0" + struct.pack(">HBHH", 11, 8, 200, 300) + b"\0" * 8
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + (9 | 19 << 14).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (GIF, (30, 20)),
        (JPEG, (300, 200)),
        (VP8X, (100, 50)),
        (VP8L, (10, 20)),
        (b"", (0, 0)),
        (b"<svg width='5' height='5'/>", (0, 0)),
    ],
)
def test_the_size_is_in_the_header(data, size):
    assert measure_image(data) == size


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, VP8X, VP8L])
def test_a_damaged_file_has_some_size_and_no_error(data):
    chance = random.Random(5)
    for length in range(len(data)):
        measure_image(data[:length])
    for _ in range(300):
        damaged = bytearray(data)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        measure_image(bytes(damaged))


def test_an_id_names_a_content():
    assert identify_image(PNG) == identify_image(bytes(PNG))
    assert identify_image(PNG) != identify_image(PNG + b"\0")
