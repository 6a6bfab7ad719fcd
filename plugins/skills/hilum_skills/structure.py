"""Converts user-written data strictly; reports each mistake's key, found value and expected value.

Importing this module imports cattrs (40 ms), so import it only if there is something to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cattrs import ClassValidationError, Converter
from cattrs.errors import ForbiddenExtraKeysError

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]


class Mistake(NamedTuple):
    """A value that does not have the expected form.

    Attributes:
        key: The key of the value.
        message: A sentence that states the value found and the value expected.
    """

    key: str
    message: str


class InvalidValueError(ValueError):
    """Raised for a value that breaks one or more rules.

    Args:
        messages: One sentence for each rule.
    """

    def __init__(self, *messages: str) -> None:
        super().__init__(" ".join(messages))
        self.messages = messages


def make_converter(hooks: Mapping[Any, Hook]) -> Converter:
    """Create a converter that rejects unknown keys and reports every mistake.

    Args:
        hooks: A conversion function for each type that cattrs would convert too leniently. By
            default, cattrs converts any value to a string, and a string to a list of its
            characters.
    """
    # Detailed validation collects all mistakes; otherwise, the first mistake would end the
    # conversion.
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, hook in hooks.items():
        converter.register_structure_hook(kind, hook)
    return converter


def find_mistakes(error: ClassValidationError) -> Iterator[Mistake]:
    """Yield every mistake in an error raised by a converter from ``make_converter``."""
    with_key, without_key = error.group_exceptions()
    for inner, note in with_key:
        messages = inner.messages if isinstance(inner, InvalidValueError) else (str(inner),)
        for message in messages:
            yield Mistake(note.name, message)
    for each in without_key:
        if isinstance(each, ForbiddenExtraKeysError):
            # With an empty message, the caller adds a sentence that lists the known keys.
            for key in sorted(each.extra_fields):
                yield Mistake(key, "")
        elif isinstance(each, KeyError):
            yield Mistake(str(each.args[0]), "It is missing.")


def check_texts(value: object, _: object) -> tuple[str, ...]:
    """Return a list of strings as a tuple.

    Raises:
        InvalidValueError: The value is not a list of strings.
    """
    if not isinstance(value, list):
        raise InvalidValueError(f"must be a list of strings, not {describe(value)}")
    for item in value:
        if not isinstance(item, str):
            raise InvalidValueError(f"must contain only strings, not {describe(item)}")
    return tuple(value)


def describe(value: object) -> str:
    """Return a value as messages quote it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def structure(
    converter: Converter,
    data: Mapping[str, object],
    kind: type[T],
) -> tuple[T | None, Sequence[Mistake]]:
    """Convert plain data, and return the result or all mistakes.

    Args:
        converter: A converter created by ``make_converter``.
        data: The data.
        kind: The attrs class to create.
    """
    try:
        return converter.structure(data, kind), ()
    except ClassValidationError as error:
        return None, tuple(find_mistakes(error))
