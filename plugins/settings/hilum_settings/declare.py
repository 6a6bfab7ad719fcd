"""To declare settings: sections are frozen attrs classes, settings their fields."""

from __future__ import annotations

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

from hilum_settings.errors import DeclarationError

T = TypeVar("T")
Project = bool | Literal["lower", "higher", "user"]
"""What a project's file may do with a setting; see ``setting``."""
_INFO = "hilum_settings"


class Info(NamedTuple):
    """What ``setting`` says beside name, type and default.

    For a nested table it holds for everything in it.
    """

    help: str = ""
    project: Project = True
    secret: bool = False
    minimum: float | None = None
    names: str = ""


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
    names: str = "",
) -> Any:
    """Declare one setting of a section, or of a table nested in it.

    Its annotation may be ``bool``, ``int``, ``float``, ``str``, ``Literal``, ``Any``, ``list[…]``,
    ``dict[str, …]``, an attrs class, or one of these ``| None``. Types are strict: ``true`` is no
    number and ``"5"`` is none either.

    Args:
        default: Value without any source. With neither this nor ``factory`` it is required.
        factory: Makes the default, for lists, tables and nested classes.
        help: One sentence that says what it does, with the unit.
        project: What a project's file may do with it. ``True``: set it. ``"lower"`` and
            ``"higher"``: only lower, or raise, what the user has (no value is no limit, ``false``
            is below ``true``); for what costs money or time. ``"user"``: nothing; what it says is
            ignored, and reported. ``False``: nothing; its attempt is a mistake, as for whatever
            widens what the program may do.
        secret: Whether it is a key or token: never shown, and never taken from a project's file.
        minimum: The smallest number it may be.
        names: Of a table with names of the user's choice: how they are written, with a slash
            between the parts, for example ``provider/name``. A name with fewer parts is a mistake.
    """
    start = default if factory is None else attrs.Factory(factory)
    return attrs.field(default=start, metadata={_INFO: Info(help, project, secret, minimum, names)})


def required(cls: Any) -> list[str]:
    """Return the names of the settings without a default."""
    return [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def section(
    name: str | None = None, *, error: Callable[[str], Exception] = DeclarationError
) -> Callable[[type[T]], type[T]]:
    """Create a frozen attrs class of a class of settings, and name the table they stand in.

    Args:
        name: Name of the table; ``""`` is the top level. ``None`` is for a table nested in another
            one, which is the type of a setting there.
        error: Makes the error to raise.

    Raises:
        DeclarationError: A setting has no default. (In nested tables it may be required.)
    """

    def make(cls: type[T]) -> type[T]:
        # A repr would show secrets. What attrs would generate for each class anew costs half of
        # what declaring them takes.
        made: Any = attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)(cls)
        made.__eq__ = _same
        made.__hash__ = _hash
        if name is not None:
            made.__section__ = name
            missing = required(made)
            if missing:
                raise error(f"Settings [{name}]: {', '.join(missing)} needs a default.")
        return made  # type: ignore[no-any-return]

    return make


def _same(one: Any, other: object) -> bool:
    return vars(one) == vars(other) if type(one) is type(other) else NotImplemented


def _hash(one: Any) -> int:
    return hash(tuple(vars(one).values()))


def sections_of(module: object) -> list[type]:
    """Return the sections among the attributes of a module (or of any other object), each once."""
    found = getattr(module, "__dict__", {}).values()
    return list(dict.fromkeys(v for v in found if isinstance(v, type) and "__section__" in vars(v)))


def plain(kind: Any) -> Any:
    """Return the type without ``| None``."""
    if get_origin(kind) in (Union, UnionType):
        rest = [k for k in get_args(kind) if k is not NoneType]
    else:
        rest = []
    return rest[0] if len(rest) == 1 else kind


def members(kind: Any, names: Iterable[str], info: Info) -> Members | None:
    """Return the settings in a table by name: type, and what was declared.

    ``None`` for a type that is no table.

    Args:
        kind: The table's type; the root is such a dict itself.
        names: The names in a value of it, which are what a ``dict`` has.
        info: What was declared for the table.
    """
    if isinstance(kind, dict):
        return kind
    if get_origin(kind) is dict:
        return dict.fromkeys(names, (get_args(kind)[1], info._replace(names="")))
    if not attrs.has(kind):
        return None
    found = {}
    for field in attrs.fields(attrs.resolve_types(kind)):
        own = field.metadata.get(_INFO, Info())
        own = own._replace(
            project=own.project if info.project is True else info.project,
            secret=own.secret or info.secret,
        )
        found[field.name] = field.type, own
    return found
