"""The subset of YAML that front matter may use.

This module builds texts, lists and mappings of limited size from the YAML library's events.

The library's own constructors are not used: they turn ``no`` into False and ``1.10`` into 1.1,
support tags, overwrite duplicate keys, and expand aliases without limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from hilum.frontmatter.document import Problem

MAX_VALUES = 5_000
"""Maximum number of values in front matter; aliased values count each time."""
DEEPEST = 20
_EMPTY = {"", "~", "null", "Null", "NULL"}
_CORE_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {"str", "int", "float", "bool", "null", "seq", "map", "timestamp"}


class NotYaml(Exception):
    """The text is not YAML, or uses features of YAML that front matter must not contain.

    ``line`` is the line of the error.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class Mapping(NamedTuple):
    """The top-level mapping of a text, with the lines of its keys and the problems found in it."""

    fields: dict[str, object]
    lines: dict[str, int]
    notes: list[Problem]


def parse(text: str, first: int = 1) -> Mapping:
    """Read a text that consists of one mapping.

    Args:
        text: The text, without characters that YAML forbids.
        first: The line of the file on which the text begins, because reported line numbers refer to
            the file.

    Raises:
        NotYaml: The text is not YAML or not a mapping, has unknown tags or unused anchors, or
            exceeds a limit.
    """
    import yaml

    builder = _Builder(yaml.parse(text, Loader=_loader()), first)
    try:
        return builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first + mark.line if mark else first
        raise NotYaml(line, error.problem or error.context or "it is not YAML") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # escapes such as "\UFFFFFFFF"
        raise NotYaml(first, str(error).partition("\n")[0] or "it is not YAML") from None


@cache
def _loader() -> Any:
    import yaml

    # If libyaml is available, its loader is ten times as fast.
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Builder:
    """A builder of values from YAML events, which stops at the first limit that is exceeded."""

    def __init__(self, events: Iterator[Any], first: int) -> None:
        self.events = events
        self.first = first
        self.anchors: dict[str, tuple[object, int]] = {}
        self.used: set[str] = set()
        self.named: dict[str, int] = {}
        self.count = 0
        self.notes: list[Problem] = []

    def document(self) -> Mapping:
        lines: dict[str, int] = {}
        fields: object = {}
        for event in self.events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent" and event.explicit:
                raise NotYaml(self.line(event), "front matter must be a single document")
            if kind == "MappingStartEvent":
                fields = self.value(event, 0, lines)
            elif kind not in {
                "StreamStartEvent",
                "DocumentStartEvent",
                "DocumentEndEvent",
                "StreamEndEvent",
            }:
                raise NotYaml(self.line(event), "it is not a mapping of keys to values")
        # A text that begins with `&` was probably not meant as an anchor.
        for anchor in self.named.keys() - self.used:
            raise NotYaml(self.named[anchor], f"'&{anchor}' names a value that nothing refers to")
        assert isinstance(fields, dict)
        return Mapping(fields, lines, self.notes)

    def value(self, event: Any, depth: int, lines: dict[str, int] | None = None) -> object:
        kind = type(event).__name__
        line = self.line(event)
        before = self.count
        if kind == "AliasEvent":
            return self.alias(event.anchor, line)
        self.grow(1, line)
        if depth > DEEPEST:
            raise NotYaml(line, f"it is nested more than {DEEPEST} levels deep")
        self.tag(event, line)
        if event.anchor:
            self.named[event.anchor] = line
        if kind == "ScalarEvent":
            # Only an unquoted value can be empty: `"null"` is a text.
            value: object = None if not event.style and event.value in _EMPTY else event.value
        elif kind == "SequenceStartEvent":
            value = [self.value(inner, depth + 1) for inner in self.until("SequenceEndEvent")]
        else:
            value = self.mapping(depth, {} if lines is None else lines)
        if event.anchor:
            # The anchor is registered when the value is complete, so that no value can contain
            # itself.
            self.anchors[event.anchor] = (value, self.count - before)
        return value

    def mapping(self, depth: int, lines: dict[str, int]) -> dict[str, object]:
        found: dict[str, object] = {}
        for event in self.until("MappingEndEvent"):
            line = self.line(event)
            if type(event).__name__ != "ScalarEvent" or event.anchor:
                raise NotYaml(line, "a key must be a plain text")
            self.tag(event, line)
            key = event.value
            if key in found:
                # YAML forbids duplicate keys, but some files have them; the last value counts, as
                # in most parsers.
                self.notes.append(twice(key, line, lines[key]))
            lines[key] = line
            found[key] = self.value(next(self.events), depth + 1)
        return found

    def line(self, event: Any) -> int:
        return self.first + int(event.start_mark.line)

    def until(self, end: str) -> Iterator[Any]:
        for event in self.events:
            if type(event).__name__ == end:
                return
            yield event

    def alias(self, anchor: str, line: int) -> object:
        if anchor not in self.anchors:
            raise NotYaml(line, f"'*{anchor}' refers to nothing")
        # An alias counts as all the values that it stands for; otherwise nested aliases could make
        # a short text grow exponentially ("billion laughs").
        value, size = self.anchors[anchor]
        self.used.add(anchor)
        self.grow(size, line)
        return value

    def grow(self, by: int, line: int) -> None:
        self.count += by
        if self.count > MAX_VALUES:
            raise NotYaml(line, f"it has more than {MAX_VALUES} values")

    def tag(self, event: Any, line: int) -> None:
        """Check the tag of a value.

        A core YAML tag is ignored, with a note. Any other tag means that the text is not YAML.
        """
        tag = event.tag
        if tag is None:
            return
        name = tag.removeprefix(_CORE_TAG)
        if name == tag or name not in _PLAIN_TAGS:
            raise NotYaml(line, f"tags are not supported here: {tag[:60]!r}")
        self.notes.append(Problem(line, f"The tag !!{name} is ignored: texts stay texts."))


def twice(key: str, line: int, before: int) -> Problem:
    """Report a duplicate key, and which of the values counts."""
    message = (
        f"The key {key[:60]!r} is repeated here (first on line {before}): this value counts, the"
        " first one does not."
    )
    return Problem(line, message)
