"""How many tokens a request takes: estimated from its bytes, corrected for each model by what its
provider counts.

No tokenizer runs: what is asked for here is asked for every piece of every conversation. The base
figures lie between those of the tokenizers of OpenAI, Anthropic, Google, Qwen and DeepSeek; a
model's own figures are learnt from its counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

# Tokens of one image, and characters of encrypted reasoning to a token, where nothing better is
# known.
IMAGE = 1_200
OPAQUE = 5
# What a vendor adds to a part is an id or a name up to this length.
NAME = 100
DENSE = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDE = bytes(range(128, 256))

Size = tuple[int, int, int, int]
NOTHING: Size = (0, 0, 0, 0)


def weigh(text: str | bytes, images: Iterable[bytes] = (), sealed: Iterable[bytes] = ()) -> Size:
    """Estimate the tokens of a text by kind: plain, wide (all outside ASCII), images, opaque
    reasoning.

    Args:
        text: The text.
        images: Images as they stand in it, in base64; those that do not count nothing.
        sealed: Signatures and encrypted reasoning as they stand in it.
    """
    data = text.encode(errors="replace") if isinstance(text, str) else text
    whole = data
    shown = 0
    for image in images:
        data, shown = (data.replace(image, b"", 1), shown + 1) if image in data else (data, shown)
    pictures = len(whole) - len(data)
    for item in sealed:
        data = data.replace(item, b"", 1)
    hidden = len(whole) - len(data) - pictures
    plain = data if data.isascii() else data.translate(None, WIDE)
    dense = len(plain) - len(plain.translate(None, DENSE))
    tokens = (len(plain) + 3 * dense - 3 * plain.count(b"    ")) // 4 + 1
    # 13/60 of a token a byte are 0.65 a character of Chinese, Japanese or Korean.
    return tokens, (len(data) - len(plain)) * 13 // 60, shown * IMAGE, hidden // OPAQUE


def opaque(vendor: Mapping[str, object]) -> list[bytes]:
    """Find signatures and encrypted reasoning in what a vendor adds to a part: no vendor counts
    them by their length.
    """
    fields = [
        v
        for field in vendor.values()
        for v in (field.values() if isinstance(field, Mapping) else (field,))
    ]
    return [field.encode() for field in fields if isinstance(field, str) and len(field) > NAME]


def estimate(text: str | bytes) -> int:
    """Estimate the tokens of a text, not corrected for any model."""
    return sum(weigh(text))


def join(one: Size, two: Size) -> Size:
    """Add up two sizes."""
    return one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3] + two[3]


class Gauge(msgspec.Struct, frozen=True):
    """What one model's counts have taught.

    Attributes:
        size: The estimate of the request that was counted last.
        counted: Tokens that it had by the provider's count; 0 before the first.
        factors: By kind, tokens for each estimated one.
    """

    size: Size = NOTHING
    counted: int = 0
    factors: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    @property
    def factor(self) -> float:
        """Tokens for each estimated one, over all kinds as they were mixed up to now."""
        if self.counted:
            return min(max(self.counted / sum(self.size), 0.3), 4.0)
        return 1.0

    def tokens(self, size: Size) -> int:
        """Correct the estimate of a part of a request."""
        return int(sum(f * n for f, n in zip(self.factors, size, strict=True)))

    def text(self, text: str) -> int:
        """Estimate a text, corrected."""
        return self.tokens(weigh(text))

    def total(self, size: Size) -> int:
        """Correct the estimate of a whole request: the last count, and what came or went since."""
        least = 3 * sum(size) // 10
        most = 4 * sum(size)
        return min(max(self.counted + self.tokens(size) - self.tokens(self.size), least), most)

    def learn(self, size: Size, counted: int) -> Gauge:
        """Take in a count.

        The factors move by the shortest way to where they would have foretold it (normalized least
        mean squares). A small step in a big conversation, which tells little, moves them little.

        Args:
            size: The estimate of the request.
            counted: Tokens that it had by the provider's count.
        """
        step = [new - old for new, old in zip(size, self.size, strict=True)]
        missed = (
            counted - self.counted - sum(f * n for f, n in zip(self.factors, step, strict=True))
        )
        weight = missed / (sum(n * n for n in step) + (sum(size) / 20) ** 2 + 1)
        one, two, three, four = (
            min(max(f + weight * n, 0.2), 4.0) for f, n in zip(self.factors, step, strict=True)
        )
        return Gauge(size, counted, (one, two, three, four))
