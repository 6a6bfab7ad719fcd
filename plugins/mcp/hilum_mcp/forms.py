"""Converts a server's form, a flat object of strings, numbers and choices, to questions.

Each field is one question to the user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

DECLINE = "Decline"
SKIP = "Leave it empty"
YES = "Yes"
NO = "No"
MAX_FIELDS = 20
MAX_CHOICES = 8
MAX_LENGTH = 300
MAX_ECHO = 40
# MCP, elicitation: servers must not request sensitive information in a form. Short words such as
# `pin` are matched only as whole words, because "shipping" contains `pin` as well.
_SECRET = re.compile(
    r"pass(word|phrase|code)|secret|credential|(private|api|access).?key"
    r"|(?<![a-z])(token|pin|cvv|cvc)(?![a-z])",
    re.I,
)
_KINDS = ("string", "number", "integer", "boolean")
_BOUNDS = {
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}


class FormField(msgspec.Struct, frozen=True):
    """A field of a form.

    Args:
        name: The name of the field.
        kind: ``string``, ``number``, ``integer`` or ``boolean``.
        question: The question to the user.
        choices: The allowed values, by the text that is displayed for each.
        multiple: Whether the user may select several choices.
        required: Whether the field must have a value.
        default: The server's suggestion as displayed; empty if there is none.
        minimum: The smallest allowed number, length or number of choices.
        maximum: The largest allowed number, length or number of choices.
    """

    name: str
    kind: str
    question: str
    choices: dict[str, str] = {}
    multiple: bool = False
    required: bool = False
    default: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf

    @property
    def options(self) -> tuple[str, ...]:
        """The answers from which the user can choose.

        Pressing Enter selects the first answer: the server's suggestion or, without one, an empty
        answer or No. Therefore, a user who only presses Enter never agrees to anything.
        """
        answers = [NO, YES] if self.kind == "boolean" else list(self.choices)
        if self.default:
            answers = [self.default, *(each for each in answers if each != self.default)]
        answers = answers[:MAX_CHOICES]
        skip = [] if self.required else [SKIP]
        if self.default:
            return (*answers, *skip, DECLINE)
        return (*skip, *answers, DECLINE)

    def parse(self, given: Sequence[str]) -> Any:
        """Return the value of an answer, or ``None`` for an empty one.

        Raises:
            ValueError: The answer is not allowed; the message states which answers are.
        """
        if SKIP in given and not self.required:
            return None
        value = self._parse_choice(given) if self.choices else self._parse_text(given[0])
        size, unit = _measure(value)
        if not self.minimum <= size <= self.maximum:
            raise ValueError(f"It must be {_format_range(self.minimum, self.maximum)}{unit}")
        return value

    def _parse_choice(self, given: Sequence[str]) -> str | list[str]:
        for answer in given:
            if answer not in self.choices:
                raise ValueError(f"{answer!r} is not one of the choices")
        values = [self.choices[answer] for answer in given]
        return values if self.multiple else values[0]

    def _parse_text(self, text: str) -> Any:
        if self.kind == "boolean":
            if text not in (YES, NO):
                raise ValueError("Answer Yes or No")
            return text == YES
        convert = {"integer": int, "number": float}.get(self.kind, str)
        try:
            value: Any = convert(text)
        except ValueError:
            value = math.nan
        # `float` accepts "nan" and "inf", which JSON cannot express.
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{text[:MAX_ECHO]!r} is not a valid {self.kind}")
        return value


def _measure(value: Any) -> tuple[float, str]:
    """Return the size to which a field's bounds apply, and the unit of that size."""
    if isinstance(value, int | float):
        return value, ""
    return len(value), " characters" if isinstance(value, str) else " choices"


def _format_range(minimum: float, maximum: float) -> str:
    if maximum == math.inf:
        return f"{minimum:g} or more"
    if minimum == -math.inf:
        return f"{maximum:g} or less"
    return f"{minimum:g} to {maximum:g}"


def asks_for_secret(text: str) -> bool:
    """Return whether a form seems to request a secret, which the protocol forbids."""
    return _SECRET.search(text) is not None


def read_form(schema: Mapping[str, Any]) -> list[FormField]:
    """Parse the schema of a form.

    Raises:
        ValueError: The form cannot be presented field by field.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > MAX_FIELDS:
        raise ValueError(f"It must have properties, at most {MAX_FIELDS}.")
    required = schema.get("required") or ()
    return [_read_field(name, field, name in required) for name, field in properties.items()]


def _read_field(name: str, schema: Any, required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise ValueError(f"The field {name} is not an object.")
    kind = schema.get("type", "string")
    is_array = kind == "array"
    if is_array:
        kind = "string"
    if kind not in _KINDS:
        raise ValueError(f"The field {name} is of type {kind}.")
    choices = _read_choices(schema.get("items") if is_array else schema)
    if is_array and not choices:
        raise ValueError(f"The field {name} is a list without choices.")
    lower, upper = _BOUNDS.get("array" if is_array else kind, ("", ""))
    return FormField(
        name=name,
        kind=kind,
        question=_make_question(name, kind, schema),
        choices=choices,
        multiple=is_array,
        required=required,
        default=_read_default(schema.get("default"), kind, choices),
        minimum=_read_bound(schema.get(lower), -math.inf),
        maximum=_read_bound(schema.get(upper), math.inf),
    )


def _make_question(name: str, kind: str, schema: Mapping[str, Any]) -> str:
    texts = []
    for key in ("title", "description"):
        if schema.get(key):
            texts.append(str(schema[key])[:MAX_LENGTH])
    question = ": ".join(texts) or name[:MAX_LENGTH]
    return f"{question} ({kind})" if kind in ("number", "integer") else question


def _read_choices(schema: Any) -> dict[str, str]:
    """Return the allowed values by displayed text, in any of the protocol's three notations."""
    if not isinstance(schema, Mapping):
        return {}
    choices: dict[str, str] = {}
    for option in schema.get("oneOf") or schema.get("anyOf") or ():
        if isinstance(option, Mapping) and "const" in option:
            text = str(option.get("title") or option["const"])
            choices[text[:MAX_LENGTH]] = str(option["const"])
    if choices:
        return choices
    # `enumNames` is the notation of MCP 2025-06-18.
    values = schema.get("enum") or ()
    texts = schema.get("enumNames") or values
    for text, value in zip(texts, values, strict=False):
        choices[str(text)[:MAX_LENGTH]] = str(value)
    return choices


def _read_bound(value: Any, default: float) -> float:
    return value if isinstance(value, int | float) else default


def _read_default(value: Any, kind: str, choices: Mapping[str, str]) -> str:
    """Return the server's suggestion as displayed, or an empty string if it is invalid."""
    if choices:
        return next((text for text, choice in choices.items() if choice == value), "")
    if kind == "boolean":
        return {True: YES, False: NO}[value] if isinstance(value, bool) else ""
    expected = {"string": str, "number": int | float, "integer": int}[kind]
    # In Python, `True` is also an integer.
    if not isinstance(value, expected) or isinstance(value, bool):
        return ""
    text = str(value)
    # A suggestion with the text of one of hilum's own answers could not be told apart from that
    # answer.
    if text in (SKIP, DECLINE) or not text.strip() or len(text) > MAX_LENGTH:
        return ""
    return text
