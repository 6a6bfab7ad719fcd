"""Sections: classes that declare settings, what fits in them, and how to say what does not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

import attrs

from hilum.errors import PluginError

T = TypeVar("T")
Key = tuple[str, ...]
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", Any: "a value"}
_EACH = {int: "whole numbers", float: "numbers", str: "strings"}


@attrs.frozen
class Info:
    """What ``setting`` says beside name, type and default; for a nested table it holds for everything in it."""

    help: str = ""
    project: bool = True
    secret: bool = False
    choices: tuple[object, ...] = ()
    minimum: float | None = None


def setting(
    default: Any = attrs.NOTHING,
    *,
    factory: Callable[[], Any] | None = None,
    help: str,
    project: bool = True,
    secret: bool = False,
    choices: tuple[object, ...] = (),
    minimum: float | None = None,
) -> Any:
    """Declare one setting of a section, or of a table nested in it.

    Its annotation may be ``bool``, ``int``, ``float``, ``str``, ``Literal``, ``list[…]``, ``dict[str, …]``, an
    attrs class, or one of these ``| None``. Types are strict: ``true`` is no number and ``"5"`` is none either.

    Args:
        default: Value without any source. With neither this nor ``factory`` it is required.
        factory: Makes the default, for lists, tables and nested classes.
        help: One sentence that says what it does, with the unit.
        project: Whether a project's file may set it; say no for whatever widens what the agent may do.
        secret: Whether it is a key or token: never shown, and never taken from a project's file.
        choices: The values it may take.
        minimum: The smallest number it may be.
    """
    info = Info(help, project, secret, choices, minimum)
    if factory is not None:
        return attrs.field(factory=factory, metadata={"hilum": info})
    return attrs.field(default=default, metadata={"hilum": info})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def section(name: str | None = None) -> Callable[[type[T]], type[T]]:
    """Make a frozen attrs class of a class of settings, and name the table they stand in.

    Args:
        name: Name of the table, by convention the plugin's; ``""`` is the top level, the kernel's own. ``None`` is for a
            table nested in another one, which is the type of a setting there.

    Raises:
        PluginError: A setting has no default. (In nested tables it may be required.)
    """

    def make(cls: type[T]) -> type[T]:
        made = attrs.frozen(kw_only=True)(cls)
        if name is not None:
            made.__section__ = name  # type: ignore[attr-defined]
            fields: Any = attrs.fields(cast("Any", made))
            if missing := [field.name for field in fields if field.default is attrs.NOTHING]:
                raise PluginError(f"Settings [{name}]: {', '.join(missing)} needs a default.", plugin=name)
        return made

    return make


def sections_of(module: ModuleType) -> list[type]:
    """Give the sections among a module's attributes, each once."""
    found = (v for v in vars(module).values() if isinstance(v, type) and "__section__" in vars(v))
    return list(dict.fromkeys(found))


class Raw(str):
    """A value as text, from the environment or ``--set``: a TOML value where it is one, else the string itself."""

    def parse(self, kind: Any) -> object:
        """Give the value for a setting of this type; where that is text, all but a quoted string stays as it is."""
        import tomllib  # 7 ms, only when there is something to read

        try:
            document = tomllib.loads(f"value = {self}")
        except (tomllib.TOMLDecodeError, RecursionError):
            return str(self)
        value: object = document["value"]
        textual = kind is str or (_is_literal(kind) and isinstance(get_args(kind)[0], str))
        return str(self) if len(document) > 1 or (textual and not isinstance(value, str)) else value


def _plain(kind: Any) -> Any:
    """Give the type without ``| None``."""
    rest = [k for k in get_args(kind) if k is not NoneType] if get_origin(kind) in (Union, UnionType) else []
    return rest[0] if len(rest) == 1 else kind


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _is_table(kind: Any) -> bool:
    return attrs.has(_plain(kind)) or get_origin(_plain(kind)) is dict


def members(kind: Any, above: Info = Info()) -> dict[str, tuple[Any, Info]]:
    """Give the settings of a table by name: type, and what was declared. The root is such a dict itself."""
    if isinstance(kind, dict):
        return kind
    found = {}
    for field in attrs.fields(attrs.resolve_types(kind)):
        info, plain = field.metadata.get("hilum") or Info(), _plain(field.type)
        # A list of tables is read as a whole, so it is as restricted as the most restricted thing in it.
        each: Any = get_args(plain)[0] if _is_list(plain) else None
        infos = [info, above, *(i for _, i in (members(each).values() if attrs.has(each) else ()))]
        project, secret = all(i.project for i in infos), any(i.secret for i in infos)
        found[field.name] = field.type, attrs.evolve(info, project=project, secret=secret)
    return found


def keys(kind: Any, key: Key = ()) -> Iterator[Key]:
    """Give the keys of all settings there are."""
    if isinstance(kind, dict) or attrs.has(_plain(kind)):
        for name, (inner, _) in members(_plain(kind)).items():
            yield from keys(inner, (*key, name))
    else:
        yield key


@attrs.frozen
class Leaf:
    """A single value in a table of settings. An unknown key has no type but the names that are known in its place."""

    key: Key
    value: object
    kind: Any = None
    info: Info = Info()
    known: tuple[str, ...] = ()


def leaves(kind: Any, value: object, key: Key = (), info: Info = Info()) -> Iterator[Leaf]:
    """Give the single values in a table, or the value itself if it is none."""
    plain = _plain(kind)
    if isinstance(value, Raw):
        value = value.parse(plain)
    if isinstance(value, Mapping) and value and get_origin(plain) is dict:
        for name, inner in value.items():
            yield from leaves(get_args(plain)[1], inner, (*key, name), info)
    elif isinstance(value, Mapping) and value and (isinstance(plain, dict) or attrs.has(plain)):
        there = members(plain, info)
        for name, inner in value.items():
            if name in there:
                yield from leaves(there[name][0], inner, (*key, name), there[name][1])
            else:
                yield Leaf((*key, name), inner, known=tuple(there))
    else:
        yield Leaf(key, value, kind, info)


# --- what fits -------------------------------------------------------------------------------------------------------


class _Refused(TypeError):
    """A value is not of the declared type; the only argument is the value."""


@functools.cache  # it writes code for every class it meets
def converter() -> Any:
    """Make a cattrs converter that converts nothing: a value has the declared type, or is refused."""
    import cattrs  # 45 ms, only when there is something to structure
    from cattrs.cols import list_structure_factory

    def scalar(value: Any, kind: Any) -> Any:
        if _is_literal(kind):
            fits = any(type(value) is type(choice) and value == choice for choice in get_args(kind))
        else:
            fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits:
            raise _Refused(value)
        return float(value) if kind is float else value

    def sequence(kind: Any, converter: Any) -> Any:
        each = list_structure_factory(kind, converter)

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, list):  # cattrs would take a string letter by letter
                raise _Refused(value)
            return each(value, kind)

        return hook

    made: Any = cattrs.Converter(forbid_extra_keys=True)
    for kind in (bool, int, float, str):
        made.register_structure_hook(kind, scalar)
    made.register_structure_hook_func(_is_literal, scalar)
    made.register_structure_hook_factory(_is_list, sequence)
    return made


def mistakes(leaf: Leaf, converter: Any, project: bool) -> list[str]:
    """Say what is wrong with a single value, one line for each place; nothing if it is right.

    Args:
        leaf: The value.
        converter: See ``converter``.
        project: Whether it comes from a project's file.
    """
    info = leaf.info
    if leaf.kind is None:
        section = len(leaf.key) == 1 and isinstance(leaf.value, Mapping)
        what = f"unknown section [{leaf.key[0]}]" if section else f"unknown key {'.'.join(leaf.key)}"
        return [f"{what}; {near(leaf.key[-1], leaf.known)}"]
    if project and (info.secret or not info.project):
        return [f"{'.'.join(leaf.key)}: only the user may set this, in a file of their own and not in a project"]
    if leaf.value == {} and _is_table(leaf.kind):
        return []  # what is missing in it may stand in another source
    try:
        value = converter.structure(leaf.value, leaf.kind)
        low = info.minimum is not None and value is not None and value < info.minimum
        if low or (info.choices and value is not None and value not in info.choices):
            raise _Refused(leaf.value)
    except Exception as error:
        return complaints(leaf, error)
    return []


def complaints(leaf: Leaf, error: Exception) -> list[str]:
    """Say what cattrs found wrong with a value, one line for each place."""
    import cattrs

    def text(error: BaseException, kind: Any) -> str:
        if isinstance(error, cattrs.ForbiddenExtraKeysError):
            return f"unknown key {', '.join(sorted(error.extra_fields))}"
        expected = _expected(kind or leaf.kind, leaf.info)
        if isinstance(error, KeyError):
            return f"missing, expected {expected}"
        found = repr(error.args[0] if isinstance(error, _Refused) else leaf.value)
        found = "a value that is not shown" if leaf.info.secret else found if len(found) <= 60 else found[:57] + "..."
        return f"found {found}, expected {expected}"

    lines = (line.rpartition(" @ ") for line in cattrs.transform_error(error, ".".join(leaf.key), text))
    return [f"{place}: {complaint}" for complaint, _, place in lines]


def _expected(kind: Any, info: Info) -> str:
    kind = _plain(kind)
    choices = info.choices or (get_args(kind) if _is_literal(kind) else ())
    if choices:
        return f"one of {', '.join(map(repr, choices))}"
    if _is_list(kind):
        return f"a list of {_EACH.get(get_args(kind)[0], 'values')}"
    if _is_table(kind):
        return "a table"
    low = "" if info.minimum is None else f" of at least {info.minimum:g}"
    return _EXPECTED.get(kind, str(kind)) + low


def near(name: str, known: Iterable[str]) -> str:
    """Give names that are like this one as a clause of a message, else the names there are."""
    names = sorted(known)
    found = get_close_matches(name, names, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(found)}?" if found else f"known: {', '.join(names[:12]) or 'none'}"
