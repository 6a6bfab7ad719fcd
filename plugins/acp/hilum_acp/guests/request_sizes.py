"""The size of a program's request to a model: the tokens that it is expected to use."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hilum import estimate

IMAGE_TOKENS = 1_200
"""Tokens of an image or another file, before the provider has counted it."""
# The fields in which the formats have the maximum length of an answer, and the number of answers.
_OUTPUT_LIMITS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
)
_ANSWER_COUNTS = ("n", "candidateCount", "candidate_count")
_GENERATION_CONFIGS = ("generationConfig", "generation_config")
# The fields that contain a file in base64, or the address of a file, which may contain the file.
_FILE_FIELDS = ("data", "file_data")
_ADDRESS_FIELDS = ("url", "image_url")
# The definitions, arguments and results of the program's own tools are only text.
_DATA_FIELDS = ("tools", "args", "functionResponse", "function_response")


class RequestSize(NamedTuple):
    """The tokens that a request is expected to use.

    Attributes:
        input: Estimated number of tokens in the request.
        output: Maximum number of tokens in all answers together.
    """

    input: int
    output: int


def measure_request(fields: dict[str, Any], max_output: int) -> RequestSize:
    """Return the size of a request in any of the formats.

    Args:
        fields: The body of the request.
        max_output: Maximum number of tokens in an answer if the request sets no limit.
    """
    places = [fields]
    for name in _GENERATION_CONFIGS:
        config = fields.get(name)
        if isinstance(config, dict):
            places.append(config)
    limits = _find_counts(places, _OUTPUT_LIMITS)
    answers = _find_counts(places, _ANSWER_COUNTS)
    output = max(limits, default=max_output) * max(answers, default=1)
    texts, files = _split_files(fields)
    return RequestSize(estimate(msgspec.json.encode(texts)) + files * IMAGE_TOKENS, output)


def _find_counts(places: list[dict[str, Any]], names: tuple[str, ...]) -> list[int]:
    found: list[int] = []
    for place in places:
        for name in names:
            value = place.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                found.append(value)
    return found


def _split_files(value: Any, *, is_content: bool = True) -> tuple[Any, int]:
    """Return a request without the files in it, and their number.

    Args:
        value: The request, or a part of it.
        is_content: Whether the provider takes files from this part; it reads others as text.
    """
    count = 0
    if isinstance(value, list):
        items = []
        for item in value:
            kept, found = _split_files(item, is_content=is_content)
            items.append(kept)
            count += found
        return items, count
    if not isinstance(value, dict):
        return value, 0
    entries: dict[str, Any] = {}
    for name, item in value.items():
        if is_content and _is_file(name, item):
            count += 1
            continue
        is_data = name in _DATA_FIELDS or (name == "input" and value.get("type") == "tool_use")
        entries[name], found = _split_files(item, is_content=is_content and not is_data)
        count += found
    return entries, count


def _is_file(name: str, value: object) -> bool:
    if not isinstance(value, str):
        return False
    return name in _FILE_FIELDS or (name in _ADDRESS_FIELDS and value.startswith("data:"))
