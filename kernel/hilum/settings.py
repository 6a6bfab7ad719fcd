"""Settings: layered TOML into typed sections, every mistake reported at once, every value with its source.

Weakest to strongest: defaults, the user's file, the project's file, environment, command line. Tables merge key by key,
lists replace. A plugin declares a section as a class::

    @section("shell")
    class ShellSettings:
        timeout: float = setting(default=120.0, minimum=0, help="Seconds a command may take.")

It is then ``[shell] timeout = 5`` in a file, ``HILUM_SHELL_TIMEOUT=5`` in the environment and ``--set shell.timeout=5``
on the command line. Where there is nothing to read, nothing slow is imported: sections are then plain defaults.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import attrs

from hilum.errors import PluginError, SettingsError
from hilum.sections import Info, Key, Leaf, Raw, complaints, converter, keys, leaves, members, mistakes, near
from hilum.sections import section as section
from hilum.sections import sections_of as sections_of
from hilum.sections import setting as setting

T = TypeVar("T")
FILE = "settings.toml"
# Variables that are no settings: they say where settings and data are.
FOLDERS = ("HILUM_CONFIG", "HILUM_DATA")


# --- the kernel's own section -----------------------------------------------------------------------------------------


@section()
class PluginSettings:
    """Which plugins are loaded, by name."""

    allow: list[str] | None = setting(default=None, help="Only these plugins are loaded; all when not set.")
    block: list[str] = setting(factory=list, help="Plugins that are never loaded.")
    order: list[str] = setting(factory=list, help="Plugins that come first, in this order.")


@section("")
class KernelSettings:
    """The kernel's settings; they stand at the top of the file, outside any table."""

    model: str = setting(default="", help="Model to use, provider/name; empty lets the providers suggest one.")
    roles: dict[str, str] = setting(factory=dict, help="Models by role: default, fast, summarize.")
    fallback: list[str] = setting(factory=list, help="Models to try, in order, when the chosen one fails.")
    mode: str = setting(default="agent", help="Mode a session starts in.")
    approve: Literal["ask_first", "auto", "readonly"] = setting(
        default="ask_first", project=False, help="What happens to tool calls that change something."
    )
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


def parse_pair(text: str) -> tuple[str, Raw]:
    """Split ``key=value`` of the command line for ``load(overrides=…)``.

    Raises:
        SettingsError: There is no ``=``, or nothing before it.
    """
    key, _, value = text.partition("=")
    if not key.strip() or "=" not in text:
        raise SettingsError([f"command line: {text!r} is not of the form key=value, as in shell.timeout=5"])
    return key.strip(), Raw(value.strip())


@attrs.frozen
class _Source:
    name: str
    data: Mapping[str, object]
    project: bool = False


def _single(name: str, key: Iterable[str], value: object) -> _Source:
    for part in reversed([*key]):
        value = {part: value}
    return _Source(name, cast("Mapping[str, object]", value))


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
    variables = {_variable(key): key for key in keys(root)} if given else {}
    for name, text in sorted(given.items()):
        if name in variables:
            yield _single(name, variables[name], Raw(text))
        elif known is not None and not any(name.startswith(_variable([plugin, ""])) for plugin in known):
            problems.append(f"environment {name}: unknown variable; {near(name, variables)}")


def _variable(key: Iterable[str]) -> str:
    return "_".join(["HILUM", *key]).upper().replace("-", "_")


# --- types: what there is, what fits, and how to say what does not ---------------------------------------------------


# --- the effective values --------------------------------------------------------------------------------------------


@attrs.frozen
class Explained:
    """One effective value and where it came from: ``default``, a file, a variable, or ``command line``.

    The value of a secret is ``set`` or ``not set``.
    """

    section: str
    key: str
    value: object
    source: str
    help: str
    secret: bool


@attrs.frozen
class Settings:
    """All sections with their effective values; ``problems`` is what was wrong, where ``load`` does not raise."""

    problems: list[str]
    _sections: dict[str, Any]
    _origin: dict[Key, str]

    def get(self, kind: type[T]) -> T:
        """Give a section by its class.

        Raises:
            PluginError: The class was not among those that were loaded.
        """
        name = getattr(kind, "__section__", kind.__name__)
        if not isinstance(found := self._sections.get(name), kind):
            hint = "A section must be an attribute of its plugin's module."
            raise PluginError(f"No settings were loaded for {kind.__name__}.", plugin=name, hint=hint)
        return found

    def table(self, name: str) -> dict[str, Any]:
        """Give a section by name as plain data, secrets included; empty if there is none."""
        return attrs.asdict(self._sections[name]) if name in self._sections else {}

    def explain(self) -> list[Explained]:
        """Give every effective value with its source, in the order of declaration."""
        rows = []
        for table, instance in self._sections.items():
            prefix = (table,) if table else ()
            for leaf in leaves(type(instance), attrs.asdict(instance), prefix):
                above = (leaf.key[:n] for n in range(len(leaf.key), 0, -1))
                source = next((self._origin[key] for key in above if key in self._origin), "default")
                value = ("set" if leaf.value else "not set") if leaf.info.secret else leaf.value
                name = ".".join(leaf.key[len(prefix) :])
                rows.append(Explained(table, name, value, source, leaf.info.help, leaf.info.secret))
        return rows


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
            raise PluginError(f"Two classes declare the settings section [{name}].", plugin=name)
    root: Any = {name: (cls, Info()) for name, cls in by_name.items() if name}
    root |= members(by_name[""]) if "" in by_name else {}
    problems: list[str] = []
    sources = [*_file(config_folder(environ) / FILE, False, problems)]
    sources += _file(workspace / ".hilum" / FILE, True, problems) if workspace else ()
    sources += _environment(root, environ, known, problems)
    sources += [_single("command line", key.split("."), value) for key, value in (overrides or {}).items()]
    settings = Settings(problems, {name: cls() for name, cls in by_name.items()}, {})
    if any(source.data for source in sources):
        _lay(settings, root, sources, known)
    if problems and strict:
        raise SettingsError(problems, hint="hilum config shows all settings and where they come from.")
    return settings


def _lay(settings: Settings, root: Any, sources: list[_Source], known: Collection[str] | None) -> None:
    """Check every value of every source and lay those that are right over the defaults."""
    strict, values, origin = converter(), settings._sections, settings._origin
    trees: dict[str, Any] = {}
    for source in sources:
        where = f"environment {source.name}" if source.name.startswith("HILUM_") else source.name
        for leaf in leaves(root, source.data) if source.data else ():
            if leaf.kind is None and len(leaf.key) == 1 and (known is None or leaf.key[0] in known):
                continue
            if wrong := mistakes(leaf, strict, source.project):
                settings.problems.extend(f"{where}: {text}" for text in wrong)
                continue
            table, path = (leaf.key[0], leaf.key[1:]) if leaf.key[0] in values else ("", leaf.key)
            _put(trees.setdefault(table, attrs.asdict(values[table])), path, leaf.value)
            origin[leaf.key] = source.name
    for table, tree in trees.items():
        cls = type(values[table])
        try:
            values[table] = strict.structure(tree, cls)
        except (
            Exception
        ) as error:  # each value is right, but a required one is missing, or the class refuses them together
            files = ", ".join(dict.fromkeys(name for key, name in origin.items() if key[0] == table))
            leaf = Leaf((table,), tree, cls, Info(secret=True))
            settings.problems.extend(f"{files}: {text}" for text in complaints(leaf, error))


def _put(tree: dict[str, Any], path: Key, value: object) -> None:
    for part in path[:-1]:
        if not isinstance(tree.get(part), dict):
            tree[part] = {}
        tree = tree[part]
    if value != {} or not isinstance(tree.get(path[-1]), dict):  # an empty table takes nothing away
        tree[path[-1]] = value
