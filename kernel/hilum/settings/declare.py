"""Declaration of settings: sections are frozen attrs classes, and settings are their fields."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import attrs

from hilum.errors import PluginError

T = TypeVar("T")
Project = bool | Literal["lower", "higher", "user"]
"""What a project's settings file may do with a setting; see ``setting``."""
_INFO = "hilum.settings"


class Info(NamedTuple):
    """The properties of a setting other than its name, type and default.

    The properties of a nested table apply to all settings in it. ``choice`` is set where the type
    lists all possible texts.
    """

    help: str = ""
    project: Project = True
    secret: bool = False
    minimum: float | None = None
    maximum: float | None = None
    names: str = ""
    choice: bool = False

    def allows(self, value: Any) -> bool:
        """Return whether a value, which is a number if there are limits, is within them."""
        # NaN is not within any limits, so the comparisons must not be turned around.
        if self.minimum is not None and not value >= self.minimum:
            return False
        return self.maximum is None or value <= self.maximum

    def describe_limits(self) -> str:
        """Return the limits of a number, such as ``at least 1``; empty if it has none."""
        limits = []
        if self.minimum is not None:
            limits.append(f"at least {_format_number(self.minimum)}")
        if self.maximum is not None:
            limits.append(f"at most {_format_number(self.maximum)}")
        return " and ".join(limits)


def _format_number(number: float) -> str:
    """Return a number without an exponent, as people write it."""
    return str(int(number)) if number == int(number) else str(number)


Member = tuple[Any, Info]  # type and declaration of a setting
Members = dict[str, Member]


def setting(
    default: Any = attrs.NOTHING,
    *,
    factory: Callable[[], Any] | None = None,
    help: str,
    project: Project = True,
    secret: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    names: str = "",
) -> Any:
    """Declare one setting of a section, or of a table nested in it.

    The annotation of a setting may be ``bool``, ``int``, ``float``, ``str``, ``Literal``, ``Any``,
    ``list[…]``, ``dict[str, …]``, an attrs class, or one of these ``| None``. Types are checked
    strictly: neither ``true`` nor ``"5"`` is a number.

    Args:
        default: The value if no source sets one. Without ``default`` and ``factory``, a value is
            required.
        factory: A function that creates the default, for lists, tables and nested classes.
        help: A sentence about the setting's effect, with the unit.
        project: What a project's settings file may do with the setting. ``True``: set it.
            ``"lower"`` and ``"higher"``: only lower, or raise, the user's value (no value is no
            limit, ``false`` is below ``true``), for settings that cost money or time. ``"user"``:
            nothing; a value is ignored and reported. ``False``: nothing; a value is a mistake,
            because the setting extends what the program may do.
        secret: Whether the setting is a key or token, which is never shown and never read from a
            project's file.
        minimum: The smallest number allowed.
        maximum: The largest number allowed.
        names: For a table whose names the user chooses: the form of the names, with slashes between
            their parts, for example ``provider/name``. A name with fewer parts counts as a mistake.
    """
    start = default if factory is None else attrs.Factory(factory)
    info = Info(help, project, secret, minimum, maximum, names)
    return attrs.field(default=start, metadata={_INFO: info})


def required(cls: Any) -> list[str]:
    """Return the names of the settings without a default."""
    return [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def section(name: str | None = None) -> Callable[[type[T]], type[T]]:
    """Create a decorator that turns a class into a frozen attrs class of settings.

    Args:
        name: Name of the section's table, by convention that of the plugin; ``""`` is the top
            level, for the kernel. ``None`` is for a nested table, whose class is the type of a
            setting.

    Raises:
        PluginError: A setting has no default. (Only in nested tables can a setting be required.)
    """

    def make(cls: type[T]) -> type[T]:
        # A generated repr would show secrets. Generating __eq__ and __hash__ for each class would
        # double the time that a declaration takes.
        made: Any = attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)(cls)
        made.__eq__ = _same
        made.__hash__ = _hash
        if name is not None:
            made.__section__ = name
            missing = required(made)
            if missing:
                raise PluginError(f"Settings [{name}]: {', '.join(missing)} needs a default.")
        return made  # type: ignore[no-any-return]

    return make


def _same(one: Any, other: object) -> bool:
    return vars(one) == vars(other) if type(one) is type(other) else NotImplemented


def _hash(one: Any) -> int:
    return hash(tuple(vars(one).values()))


def sections_of(module: object) -> list[type]:
    """Return the sections among the attributes of a module or other object, each once."""
    found = getattr(module, "__dict__", {}).values()
    return list(dict.fromkeys(v for v in found if isinstance(v, type) and "__section__" in vars(v)))


def plain(kind: Any) -> Any:
    """Return a type without ``| None``."""
    if get_origin(kind) in (Union, UnionType):
        rest = [k for k in get_args(kind) if k is not NoneType]
    else:
        rest = []
    return rest[0] if len(rest) == 1 else kind


def members(kind: Any, names: Iterable[str], info: Info) -> Members | None:
    """Return the settings in a table by name, each with its type and declaration.

    The result is ``None`` for a type that is not a table.

    Args:
        kind: The type of the table; for the root, a dict like the result, returned unchanged.
        names: The names that a value of the table has, which are the members if the type is a
            ``dict``.
        info: The declaration of the table.
    """
    if isinstance(kind, dict):
        return kind
    if get_origin(kind) is dict:
        return dict.fromkeys(names, (get_args(kind)[1], info._replace(names="")))
    if not attrs.has(kind):
        return None
    return _read_class(kind, info.project, info.secret)


@functools.lru_cache(maxsize=1000)
def _read_class(kind: type, of_project: Project, is_secret: bool) -> Members:
    """Return the settings in a table that a class declares. The caller must not change the result.

    Args:
        kind: The class.
        of_project: ``Info.project`` of the table.
        is_secret: ``Info.secret`` of the table.
    """
    found = {}
    for field in attrs.fields(attrs.resolve_types(kind)):
        own: Info = field.metadata.get(_INFO, Info())
        # A restriction of the table applies to all of its settings.
        project = own.project if of_project is True else of_project
        secret = own.secret or is_secret
        found[field.name] = field.type, own._replace(project=project, secret=secret)
    return found
