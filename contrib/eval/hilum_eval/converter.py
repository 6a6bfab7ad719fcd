"""Converts data of YAML, TOML and JSON to the classes of this package, strictly.

A value is never converted to another type: the number 5 is no text. Importing this module imports
cattrs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin

import attrs
from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError, transform_error
from cattrs.cols import homogenous_tuple_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_eval.case import Edit, Read, Run, Say, Search, Step, Together, Write

T = TypeVar("T")

_TYPE_NAMES: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
# The key of a step in a file names its kind.
_STEPS: Mapping[str, type[Any]] = {
    "read": Read,
    "edit": Edit,
    "write": Write,
    "search": Search,
    "run": Run,
    "say": Say,
    "together": Together,
}
# A step whose value is a text instead of a mapping.
_MAIN_FIELDS = {"read": "path", "run": "command", "search": "pattern", "say": "text"}
_MAX_PROBLEMS = 5


class _WrongValueError(Exception):
    """A value that cannot be used, with a description for the user."""


def structure(value: object, kind: type[T], source: str) -> T:
    """Convert plain data to an instance of a class.

    Args:
        value: Data of a file.
        kind: The class.
        source: What the data is from, such as the path of a file.

    Raises:
        UsageError: A key is unknown or missing, or a value has the wrong type; the message names
            the source and the key.
    """
    try:
        return _converter.structure(value, kind)
    except (BaseValidationError, _WrongValueError) as error:
        problems = [_reword(each) for each in transform_error(error, "", _describe)]
    shown = "; ".join(problems[:_MAX_PROBLEMS])
    if len(problems) > _MAX_PROBLEMS:
        shown += f"; and {len(problems) - _MAX_PROBLEMS} more problems"
    raise UsageError(
        f"{source}: {shown}.", code=E_BAD_ARGS, hint="docs/eval.md describes the files."
    )


def unstructure(value: object) -> Any:
    """Return an instance of a class of this package as plain data, which JSON can represent."""
    return _converter.unstructure(value)


def _reword(problem: str) -> str:
    """Return a problem with its place first: ``turns[0].prompt: is missing``."""
    text, _, place = problem.rpartition(" @ ")
    place = place.removeprefix(".")
    return f"{place}: {text}" if place else text


def _describe(error: BaseException, kind: type | None) -> str:
    if isinstance(error, _WrongValueError):
        return str(error)
    if isinstance(error, KeyError):
        return f"the key {error.args[0]!r} is missing"
    if isinstance(error, ForbiddenExtraKeysError):
        names = ", ".join(repr(name) for name in sorted(map(str, error.extra_fields)))
        known = ", ".join(field.name for field in attrs.fields(error.cl))
        return f"unknown key {names} (known: {known})"
    name = _TYPE_NAMES.get(kind, "") if kind else ""
    if name:
        return f"must be {name}"
    return str(error) or "has the wrong type"


def _check_type(value: object, kind: type[Any]) -> Any:
    # In Python, True is a whole number.
    if kind is not bool and isinstance(value, bool):
        raise _WrongValueError(f"must be {_TYPE_NAMES[kind]}, not {value!r}")
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise _WrongValueError(f"must be {_TYPE_NAMES[kind]}, not {value!r:.80}")
    return value


def _check_path(value: object, kind: type[Path]) -> Path:
    return Path(_check_type(value, str))


def _structure_step(value: object, kind: object) -> Any:
    """Return a step, which is written as a mapping with one key: ``{read: {path: a.py}}``."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise _WrongValueError(f"must be a mapping with one key of: {', '.join(_STEPS)}")
    [(name, inner)] = value.items()
    step = _STEPS.get(str(name))
    if step is None:
        raise _WrongValueError(f"unknown step {name!r} (known: {', '.join(_STEPS)})")
    if isinstance(inner, str) and name in _MAIN_FIELDS:
        inner = {_MAIN_FIELDS[name]: inner}
    elif name == "together":
        inner = {"steps": inner}
    return _converter.structure(inner, step)


def _make_class_hook(kind: type[Any], converter: Converter) -> Callable[[Any, Any], Any]:
    convert = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def check_mapping(value: Any, kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _WrongValueError(f"must be a mapping, not {value!r:.80}")
        return convert(value, kind)

    return check_mapping


def _make_tuple_hook(kind: type[Any], converter: Converter) -> Callable[[Any, Any], Any]:
    convert = homogenous_tuple_structure_factory(kind, converter)

    def check_list(value: Any, kind: Any) -> Any:
        # A text is a sequence as well, of its characters.
        if not isinstance(value, list | tuple):
            raise _WrongValueError(f"must be a list, not {value!r:.80}")
        return convert(value, kind)

    return check_list


def _make_step_hook(name: str, kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """Return the function that converts a step to plain data, as it is written in a file."""
    convert = make_dict_unstructure_fn(kind, _converter)

    def unstructure_step(step: Any) -> dict[str, Any]:
        plain = convert(step)
        return {name: plain["steps"] if name == "together" else plain}

    return unstructure_step


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    for kind in _TYPE_NAMES:
        converter.register_structure_hook(kind, _check_type)
    converter.register_structure_hook(Path, _check_path)
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook_factory(attrs.has, _make_class_hook)
    converter.register_structure_hook_factory(_is_tuple, _make_tuple_hook)
    for steps in (Step, Read | Edit | Write | Search | Run):
        converter.register_structure_hook(steps, _structure_step)
    return converter


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


_converter = _make_converter()
for _name, _kind in _STEPS.items():
    _converter.register_unstructure_hook(_kind, _make_step_hook(_name, _kind))
