"""Settings: layered TOML into typed sections, every mistake reported at once, every value with its source.

Weakest to strongest: defaults, the user's file, the project's file, environment, command line. Tables merge key by key,
lists replace. A plugin declares a section as a class::

    @section("shell")
    class ShellSettings:
        timeout: float = setting(default=120.0, minimum=0, help="Seconds a command may take.")

It is then ``[shell] timeout = 5`` in a file, ``HILUM_SHELL_TIMEOUT=5`` in the environment and ``--set shell.timeout=5``
on the command line. One recursive reader checks every source, and afterwards makes the sections of what they say together.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, dataclass_transform, get_args, get_origin

import attrs

from hilum.errors import PluginError, SettingsError, unknown

T = TypeVar("T")
FILE = "settings.toml"
# Variables that are no settings: they say where settings and data are.
FOLDERS = ("HILUM_CONFIG", "HILUM_DATA")
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


# --- to declare ------------------------------------------------------------------------------------------------------


class Info(NamedTuple):
    """What ``setting`` says beside name, type and default; for a nested table it holds for everything in it."""

    help: str = ""
    project: bool = True
    secret: bool = False
    minimum: float | None = None


Member = tuple[Any, Info]  # type and declaration of a setting
Members = dict[str, Member]


def setting(
    default: Any = attrs.NOTHING,
    *,
    factory: Callable[[], Any] | None = None,
    help: str,
    project: bool = True,
    secret: bool = False,
    minimum: float | None = None,
) -> Any:
    """Declare one setting of a section, or of a table nested in it.

    Its annotation may be ``bool``, ``int``, ``float``, ``str``, ``Literal``, ``Any``, ``list[…]``, ``dict[str, …]``, an
    attrs class, or one of these ``| None``. Types are strict: ``true`` is no number and ``"5"`` is none either.

    Args:
        default: Value without any source. With neither this nor ``factory`` it is required.
        factory: Makes the default, for lists, tables and nested classes.
        help: One sentence that says what it does, with the unit.
        project: Whether a project's file may set it; say no for whatever widens what the agent may do.
        secret: Whether it is a key or token: never shown, and never taken from a project's file.
        minimum: The smallest number it may be.
    """
    start = default if factory is None else attrs.Factory(factory)
    return attrs.field(default=start, metadata={"hilum": Info(help, project, secret, minimum)})


def _required(cls: Any) -> list[str]:
    return [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]


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
        made: Any = attrs.frozen(kw_only=True, repr=False)(cls)  # a repr would show secrets, and costs time at start
        if name is not None:
            made.__section__ = name
            if missing := _required(made):
                raise PluginError(f"Settings [{name}]: {', '.join(missing)} needs a default.")
        return made  # type: ignore[no-any-return]

    return make


def sections_of(module: object) -> list[type]:
    """Give the sections among the attributes of a module (or of an object that is a plugin), each once."""
    found = getattr(module, "__dict__", {}).values()
    return list(dict.fromkeys(v for v in found if isinstance(v, type) and "__section__" in vars(v)))


@section()
class PluginSettings:
    """Which plugins are loaded, by name."""

    allow: list[str] | None = setting(default=None, help="Only these plugins are loaded; all when not set.")
    block: list[str] = setting(factory=list, help="Plugins that are never loaded.")
    order: list[str] = setting(factory=list, help="Plugins that come first, in this order.")


Approve = Literal["ask_first", "auto", "readonly"]


@section("")
class KernelSettings:
    """The kernel's settings; they stand at the top of the file, outside any table."""

    model: str = setting(default="", help="Model to use, provider/name; empty lets the providers suggest one.")
    roles: dict[str, str] = setting(factory=dict, help="Models by role: default, fast, summarize.")
    fallback: list[str] = setting(factory=list, help="Models to try, in order, when the chosen one fails.")
    mode: str = setting(default="agent", help="Mode a session starts in.")
    approve: Approve = setting(default="ask_first", project=False, help="What happens to calls that change something.")
    approval_timeout: float = setting(default=300.0, minimum=0, help="Seconds until an unanswered approval is a no.")
    turns: int = setting(default=25, minimum=1, help="Most model calls of a run.")
    timeout: float | None = setting(default=None, minimum=0, help="Seconds a run may take; no limit when not set.")
    token_limit: int | None = setting(default=None, minimum=1, help="Tokens a run may use; no limit when not set.")
    silence: float = setting(default=30.0, minimum=0, help="Seconds without a byte until a model counts as silent.")
    required: list[str] = setting(factory=list, project=False, help="Plugins without which no tool call runs.")
    plugins: PluginSettings = setting(factory=PluginSettings, project=False, help="Which plugins are loaded.")
    session_kind: str = setting(default="main", project=False, help="Kind of a new session: main, shared, headless.")


# --- where settings stand --------------------------------------------------------------------------------------------


def _folder(own: str, xdg: str, home: str, environ: Mapping[str, str]) -> Path:
    if given := environ.get(own):
        return Path(given).expanduser().absolute()
    base = environ.get(xdg, "")
    return (Path(base) if os.path.isabs(base) else Path(environ.get("HOME") or Path.home()) / home) / "hilum"


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's configuration: ``HILUM_CONFIG``, else ``$XDG_CONFIG_HOME/hilum``, else ``~/.config/hilum``."""
    return _folder("HILUM_CONFIG", "XDG_CONFIG_HOME", ".config", environ)


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's data: ``HILUM_DATA``, else ``$XDG_DATA_HOME/hilum``, else ``~/.local/share/hilum``."""
    return _folder("HILUM_DATA", "XDG_DATA_HOME", ".local/share", environ)


class Raw(str):
    """A value as text, from the environment or ``--set``: a TOML value where it is one, else the string itself."""

    def parse(self, kind: Any) -> object:
        """Give the value for a setting of this type; where that is text, all but a quoted string stays as it is."""
        import tomllib  # 7 ms, only when there is something to read

        textual = kind is str or (get_origin(kind) is Literal and isinstance(get_args(kind)[0], str))
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            document = tomllib.loads(f"value = {self}")
            if len(document) == 1 and (isinstance(document["value"], str) or not textual):
                return document["value"]
        return str(self)


def parse_pair(text: str) -> tuple[str, Raw]:
    """Split ``key=value`` of the command line for ``load(overrides=…)``.

    Raises:
        SettingsError: There is no ``=``, or nothing before it.
    """
    key, _, value = text.partition("=")
    if not key.strip() or "=" not in text:
        raise SettingsError([f"command line: {text!r} is not of the form key=value, as in shell.timeout=5"])
    return key.strip(), Raw(value.strip())


class _Source(NamedTuple):
    name: str
    data: Mapping[str, Any]
    project: bool = False


def _single(name: str, key: str, value: object) -> _Source:
    for part in reversed(key.split(".")):
        value = {part: value}
    return _Source(name, value)  # type: ignore[arg-type]


def _file(path: Path, project: bool, problems: list[str]) -> Iterator[_Source]:
    if not os.path.lexists(path):
        return
    import tomllib

    try:
        if not path.is_file():  # reading a pipe or a device might never end
            raise OSError(0, "not a regular file")
        yield _Source(str(path), tomllib.loads(path.read_bytes().decode("utf-8-sig")), project)
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problems.append(f"{path}: line {line} is not UTF-8 text")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problems.append(f"{path}: not valid TOML: {error}")


def _environment(
    root: Any, environ: Mapping[str, str], known: Collection[str] | None, problems: list[str]
) -> Iterator[_Source]:
    given = {n: v for n, v in environ.items() if n.startswith("HILUM_") and n not in FOLDERS and v}
    variables = {_variable(key): key for key in _keys(root)} if given else {}
    for name, text in sorted(given.items()):
        if name in variables:
            yield _single(name, variables[name], Raw(text))
        elif known is not None and not any(name.startswith(_variable(f"{plugin}.")) for plugin in known):
            problems.append(f"environment {name}: unknown variable. {unknown('variable', name, variables).hint}")


def _variable(key: str) -> str:
    return f"HILUM_{key}".replace(".", "_").replace("-", "_").upper()


def _keys(kind: Any, key: str = "") -> list[str]:
    """Give the dotted keys of all settings there are."""
    inside = members(_plain(kind), (), Info()) or {}
    return [k for name, (inner, _) in inside.items() for k in _keys(inner, f"{key}.{name}".strip("."))] or [key]


# --- what fits, and how to say what does not ---------------------------------------------------------------------------


def _plain(kind: Any) -> Any:
    """Give the type without ``| None``."""
    rest = [k for k in get_args(kind) if k is not NoneType] if get_origin(kind) in (Union, UnionType) else []
    return rest[0] if len(rest) == 1 else kind


def members(kind: Any, names: Iterable[str], info: Info) -> Members | None:
    """Give the settings in a table by name: type, and what was declared. ``None`` for a type that is no table.

    Args:
        kind: The table's type; the root is such a dict itself.
        names: The names in a value of it, which are what a ``dict`` has.
        info: What was declared for the table.
    """
    if isinstance(kind, dict):
        return kind
    if get_origin(kind) is dict:
        return dict.fromkeys(names, (get_args(kind)[1], info))
    if not attrs.has(kind):
        return None
    found = {}
    for field in attrs.fields(attrs.resolve_types(kind)):
        own = field.metadata.get("hilum", Info())
        own = own._replace(project=own.project and info.project, secret=own.secret or info.secret)
        found[field.name] = field.type, own
    return found


def _fits(kind: Any, value: object, info: Info) -> bool:
    if get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    same = type(value) is kind or (kind is float and type(value) is int)
    return kind is Any or (same and (info.minimum is None or value >= info.minimum))  # type: ignore[operator]


def _expected(kind: Any, info: Info) -> str:
    kind = _plain(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if get_origin(kind) is list:
        each = _expected(get_args(kind)[0], Info())
        return f"a list of {each[2:]}s" if each.startswith("a ") else f"a list, each {each}"
    return _EXPECTED.get(kind, "a table") + ("" if info.minimum is None else f" of at least {info.minimum:g}")


@attrs.frozen
class _Reader:
    """Reads plain data as settings: gives what is right in it, and says what is wrong.

    Args:
        where: The source, to name in problems.
        problems: Takes what is wrong, one line for each place.
        project: Whether it is a project's file.
        whole: Whether this is what all sources say together, ready to make the classes of.
        leaves: Takes the right single values by dotted key.
    """

    where: str
    problems: list[str]
    project: bool = False
    whole: bool = False
    leaves: dict[str, tuple[Any, Info]] = attrs.field(factory=dict)

    def read(self, declared: Member, value: Any, key: str = "") -> Any:
        """Give what is right in a value; ``NOTHING`` if there is nothing."""
        kind, info = declared
        kind = Any if value is None and NoneType in get_args(kind) else _plain(kind)
        if isinstance(value, Raw):
            value = value.parse(kind)
        known = members(kind, value, info) if isinstance(value, Mapping) else None
        if known and value:
            return self._table(kind, value, key, known)
        if self.project and (info.secret or not info.project):
            return self._wrong(key, "only the user may set this, in a file of their own and not in a project")
        if known is not None:
            value = self._table(kind, value, key, known)
        elif get_origin(kind) is list and isinstance(value, list):
            within = attrs.evolve(self, leaves={})
            value = [within.read((get_args(kind)[0], info), each, f"{key}[{n}]") for n, each in enumerate(value)]
            if any(each is attrs.NOTHING for each in value):
                return attrs.NOTHING
            info = info._replace(secret=info.secret or any(each.secret for _, each in within.leaves.values()))
        elif not _fits(kind, value, info):
            found = "a value that is not shown" if info.secret else reprlib.repr(value)
            return self._wrong(key, f"found {found}, expected {_expected(kind, info)}")
        self.leaves[key] = value, info
        return float(value) if kind is float else value

    def _table(self, kind: Any, value: Mapping[str, Any], key: str, known: Members) -> Any:
        right = {}
        for name, inner in value.items():
            at = f"{key}.{name}" if key else name
            if name not in known:
                what = "section" if at == name and isinstance(inner, Mapping) else "key"
                self.problems.append(f"{self.where}: unknown {what} {at}. {unknown(what, name, known).hint}")
            elif (made := self.read(known[name], inner, at)) is not attrs.NOTHING:
                right[name] = made
        if not self.whole or not attrs.has(kind):
            return right
        missing = [name for name in _required(kind) if name not in right]
        for name in missing:
            self._wrong(f"{key}.{name}", f"missing, expected {_expected(*known[name])}")
        return attrs.NOTHING if missing else kind(**right)

    def _wrong(self, key: str, what: str) -> Any:
        self.problems.append(f"{self.where}: {key}: {what}")
        return attrs.NOTHING


# --- the effective values --------------------------------------------------------------------------------------------


class Explained(NamedTuple):
    """One effective value and where it came from: ``default``, a file, a variable, or ``command line``.

    The value of a secret is ``set`` or ``not set``.
    """

    key: str
    value: object
    source: str
    help: str
    secret: bool


@attrs.frozen
class Settings:
    """All sections with their effective values.

    Attributes:
        explained: Every effective value with its source, in the order of declaration.
        problems: What was wrong, where ``load`` does not raise.
    """

    explained: list[Explained]
    problems: list[str]
    _sections: dict[str, Any]

    def get(self, kind: type[T]) -> T:
        """Give a section by its class.

        Raises:
            PluginError: The class was not among those that were loaded.
        """
        name = getattr(kind, "__section__", kind.__name__)
        if not isinstance(found := self._sections.get(name), kind):
            hint = "A section must be an attribute of its plugin's module."
            raise PluginError(f"No settings were loaded for {kind.__name__}.", hint=hint)
        return found


def load(
    sections: Iterable[type],
    *,
    workspace: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
    known: Collection[str] | None = (),
    strict: bool = True,
) -> Settings:
    """Read all sources and give what holds.

    Args:
        sections: The sections there are.
        workspace: Folder whose ``.hilum/settings.toml`` counts.
        overrides: What the command line says, by dotted key; ``Raw`` values are parsed.
        environ: The environment.
        known: Sections of plugins that are not loaded; they pass unchecked. ``None`` lets every other section pass.
        strict: Whether mistakes are raised; else they stand in ``problems``, and what is wrong counts as not set.

    Raises:
        SettingsError: With every mistake in every source.
        PluginError: Two different classes declare one section.
    """
    by_name: dict[str, Any] = {}
    for cls in sections:
        name: str = cls.__section__  # type: ignore[attr-defined]
        if by_name.setdefault(name, cls) is not cls:
            raise PluginError(f"Two classes declare the settings section [{name}].")
    top = members(by_name.get(""), (), Info()) or {}
    root: dict[str, Any] = {name: (cls, Info()) for name, cls in by_name.items() if name} | top
    problems: list[str] = []
    sources = [*_file(config_folder(environ) / FILE, False, problems)]
    sources += _file(workspace / ".hilum" / FILE, True, problems) if workspace else ()
    sources += _environment(root, environ, known, problems)
    sources += [_single("command line", key, value) for key, value in (overrides or {}).items()]
    tree: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        where = f"environment {source.name}" if source.name.startswith("HILUM_") else source.name
        reader = _Reader(where, problems, source.project)
        data = {n: v for n, v in source.data.items() if n in root or (known is not None and n not in known)}
        tree = _merge(tree, reader.read((root, Info()), data))
        origin |= dict.fromkeys(reader.leaves, source.name)
    values, rows = {}, []
    for name, cls in by_name.items():
        given = tree.get(name, {}) if name else {key: tree[key] for key in top if key in tree}
        where = ", ".join(dict.fromkeys(s for key, s in origin.items() if key.startswith(f"{name}.")))
        reader = _Reader(where, problems, whole=True)
        made = reader.read((cls, Info()), _merge(attrs.asdict(cls()), given), name)
        values[name] = cls() if made is attrs.NOTHING else made
        for key, (value, info) in reader.leaves.items():
            shown = ("set" if value else "not set") if info.secret else value
            rows.append(Explained(key, shown, origin.get(key, "default"), info.help, info.secret))
    if problems and strict:
        raise SettingsError(problems, hint="hilum config shows all settings and where they come from.")
    return Settings(rows, problems, values)


def _merge(low: Any, high: Any) -> Any:
    if isinstance(low, dict) and isinstance(high, dict):
        return low | {name: _merge(low.get(name), value) for name, value in high.items()}
    return high
