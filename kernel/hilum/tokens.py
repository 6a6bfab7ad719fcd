"""Estimates of the number of tokens in a request.

An estimate is computed from the request's bytes and corrected, for each model, by the provider's
counts.

No tokenizer is used, because it would be too slow for every piece of every conversation. The base
figures are between those for the tokenizers of OpenAI, Anthropic, Google, Qwen and DeepSeek; the
figures for a model are learned from its provider's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

# Tokens per image, and characters of encrypted reasoning per token, before a provider's counts
# correct them.
IMAGE = 1_200
OPAQUE = 5
# Maximum length at which a field that a vendor adds to a part counts as an id or a name.
NAME = 100
DENSE = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDE = bytes(range(128, 256))

TextStats = tuple[int, int, int, int]
NOTHING: TextStats = (0, 0, 0, 0)


def compute_text_stats(
    text: str | bytes, images: Iterable[bytes] = (), encrypted: Iterable[bytes] = ()
) -> TextStats:
    """Estimate the number of tokens in a text by kind.

    The kinds are plain text, wide text (all characters outside ASCII), images and opaque reasoning.

    Args:
        text: The text.
        images: The images to count, in base64, as they appear in the text.
        encrypted: The signatures and encrypted reasoning to count, as they appear in the text.
    """
    data = text.encode(errors="replace") if isinstance(text, str) else text
    shown = 0
    for image in images:
        if image in data:
            data = data.replace(image, b"", 1)
            shown += 1
    without_images = len(data)
    for item in encrypted:
        data = data.replace(item, b"", 1)
    hidden = without_images - len(data)
    # ``translate`` copies the text, which is unnecessary for most texts, because they are ASCII.
    plain = data if data.isascii() else data.translate(None, WIDE)
    # A digit or capital letter takes about one token, any other character a quarter of a token;
    # four spaces of indentation count as one character.
    dense = len(plain) - len(plain.translate(None, DENSE))
    indents = plain.count(b"    ")
    tokens = (len(plain) + 3 * dense - 3 * indents) // 4 + 1
    # 13/60 of a token per byte is 0.65 tokens per Chinese, Japanese or Korean character.
    wide = (len(data) - len(plain)) * 13 // 60
    return tokens, wide, shown * IMAGE, hidden // OPAQUE


def opaque(vendor: Mapping[str, object]) -> list[bytes]:
    """Find signatures and encrypted reasoning in the fields that a vendor adds to a part.

    Vendors do not count the tokens in these fields by length.
    """
    values: list[object] = []
    for field in vendor.values():
        values += field.values() if isinstance(field, Mapping) else [field]
    return [value.encode() for value in values if isinstance(value, str) and len(value) > NAME]


def estimate(text: str | bytes) -> int:
    """Estimate the number of tokens in a text, without the correction for a model."""
    return sum(compute_text_stats(text))


def join(one: TextStats, two: TextStats) -> TextStats:
    """Add two estimates, kind by kind."""
    return one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3] + two[3]


def _weighted(factors: Iterable[float], amounts: Iterable[int]) -> float:
    return sum(factor * amount for factor, amount in zip(factors, amounts, strict=True))


class TokenCalibrator(msgspec.Struct, frozen=True):
    """A calibrator that corrects the estimates for one model by its provider's counts.

    Attributes:
        size: The estimate for the last request that the provider counted.
        counted: The provider's count for that request, in tokens; 0 before the first request.
        factors: Actual tokens per estimated token, by kind.
    """

    size: TextStats = NOTHING
    counted: int = 0
    factors: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    @property
    def factor(self) -> float:
        """Actual tokens per estimated token, over all kinds, in the last counted request."""
        if self.counted:
            return min(max(self.counted / sum(self.size), 0.3), 4.0)
        return 1.0

    def tokens(self, size: TextStats) -> int:
        """Correct the estimate for a part of a request."""
        return int(_weighted(self.factors, size))

    def text(self, text: str) -> int:
        """Return the corrected token estimate for a text."""
        return self.tokens(compute_text_stats(text))

    def total(self, size: TextStats) -> int:
        """Correct the estimate for a whole request: the last count plus the change since then."""
        change = self.tokens(size) - self.tokens(self.size)
        # The result is limited, because a provider may count something else, such as only a cached
        # part.
        least = 3 * sum(size) // 10
        most = 4 * sum(size)
        return min(max(self.counted + change, least), most)

    def learn(self, size: TextStats, counted: int) -> TokenCalibrator:
        """Return a calibrator that takes a new count into account.

        The factors change as little as possible towards values that would have predicted the count
        (normalized least mean squares). A small change in a large conversation carries little
        information, so it changes the factors little.

        Args:
            size: The estimate for the request.
            counted: The provider's count for the request, in tokens.
        """
        step = [new - old for new, old in zip(size, self.size, strict=True)]
        predicted = _weighted(self.factors, step)
        error = counted - self.counted - predicted
        squares = sum(amount * amount for amount in step)
        # The second term keeps a small change from moving the factors far; the third term avoids a
        # division by zero.
        weight = error / (squares + (sum(size) / 20) ** 2 + 1)
        one, two, three, four = (
            min(max(factor + weight * amount, 0.2), 4.0)
            for factor, amount in zip(self.factors, step, strict=True)
        )
        return TokenCalibrator(size, counted, (one, two, three, four))
