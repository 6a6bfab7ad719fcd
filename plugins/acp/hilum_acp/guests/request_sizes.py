"""The size of a program's request to a model: the tokens that it is expected to use."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hilum import estimate

from hilum_acp.guests.request_filter import Files, refuse
from hilum_acp.guests.request_formats import FORMATS, restrict_request

IMAGE_TOKENS = 1_200
"""Tokens of an image or another file, before the provider has counted it."""
MAX_ANSWERS = 128
"""Number of answers to one request."""


class RequestSize(NamedTuple):
    """The tokens that a request is expected to use.

    Attributes:
        input: Estimated number of tokens in the request.
        output: Maximum number of tokens in all answers together.
    """

    input: int
    output: int


def limit_output(request: dict[str, Any], format_name: str, max_output: int, name: str = "") -> int:
    """Write the longest answer that is reserved into a request, and return its tokens.

    Args:
        request: The restricted request, which is changed.
        format_name: The format.
        max_output: Maximum number of tokens in an answer, also if the request asks for more.
        name: The field to set if the request sets no limit; the format's first if empty.

    Raises:
        RequestRefused: The request asks for too many answers.
    """
    known = FORMATS[format_name]
    place = request
    if known.config:
        place = request[known.config] = request.get(known.config) or {}
    given = [each for each in known.limits if place.get(each) is not None]
    for each in given:
        place[each] = min(place[each], max_output)
    if not given:
        given = [name or known.limits[0]]
        place[given[0]] = max_output
    answers: int = place.get(known.answers) or 1
    if answers > MAX_ANSWERS:
        raise refuse(known.answers, f"is more than {MAX_ANSWERS}")
    longest: int = max(place[each] for each in given)
    return answers * longest


def measure_input(request: dict[str, Any], format_name: str) -> int:
    """Return the expected tokens of a restricted request. Blocks."""
    files = Files(are_kept=False)
    texts = restrict_request(request, format_name, files)
    return estimate(msgspec.json.encode(texts)) + files.count * IMAGE_TOKENS
