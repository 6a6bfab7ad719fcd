"""An application and its settings: files, variables and effective values."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import attrs

from hilum.errors import PluginError, SettingsError
from hilum.settings.declare import Info, members, required
from hilum.settings.sources import (
    FILE,
    Raw,
    Source,
    environment,
    file,
    single,
    split_key,
    split_pair,
)

T = TypeVar("T")


class Explained(NamedTuple):
    """An effective value and its source: ``default``, a file, a variable, or ``command line``.

    The value of a secret is ``set`` or ``not set``. If ``recorded`` is set, the log of a session
    contains the value: a number, or a switch or choice that does not extend what the agent may do.
    """

    key: str
    value: object
    source: str
    help: str
    secret: bool
    recorded: bool = False


class Settings:
    """All sections with their effective values.

    Attributes:
        explained: All effective values with their sources, in the order of declaration.
        problems: One message for each mistake, if ``load`` was not strict.
        ignored: One sentence for each ineffective value in a project's settings file.
    """

    def __init__(
        self,
        explained: list[Explained],
        problems: list[str],
        sections: dict[str, Any],
        app: App,
        ignored: Sequence[str] = (),
    ) -> None:
        self.explained = explained
        self.problems = problems
        self.ignored: tuple[str, ...] = tuple(ignored)
        self._sections = sections
        self._app = app

    @property
    def recorded(self) -> dict[str, Any]:
        """The values that the log of a session contains: those of ``recorded`` that a source set."""
        rows = [row for row in self.explained if row.recorded and row.source != "default"]
        return {row.key: row.value for row in rows}

    def get(self, kind: type[T]) -> T:
        """Return a section by its class.

        Raises:
            PluginError: The class was not among the loaded sections.
        """
        name = getattr(kind, "__section__", kind.__name__)
        if not isinstance(found := self._sections.get(name), kind):
            raise PluginError(
                f"No settings were loaded for {kind.__name__}.", hint=self._app.unloaded
            )
        return found


class App(NamedTuple):
    """An application with settings.

    Args:
        name: The name of the application. For ``hilum``, settings files are in ``~/.config/hilum``
            and a project's ``.hilum``, and variables are named ``HILUM_…``.
        hint: The next step for users after mistakes in their settings.
        unloaded: The next step for developers after a request for a section that was not loaded.
    """

    name: str
    hint: str = ""
    unloaded: str = ""

    @property
    def prefix(self) -> str:
        """The prefix of the application's environment variables."""
        return f"{self.name}_".replace("-", "_").upper()

    def config_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the folder of the user's configuration.

        The folder is ``$…_CONFIG``, ``$XDG_CONFIG_HOME/NAME`` or ``~/.config/NAME``, whichever
        applies first.
        """
        return self._folder("CONFIG", ".config", environ)

    def data_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the folder of the user's data.

        The folder is ``$…_DATA``, ``$XDG_DATA_HOME/NAME`` or ``~/.local/share/NAME``, whichever
        applies first.
        """
        return self._folder("DATA", ".local/share", environ)

    def cache_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the folder for files that can be created again.

        The folder is ``$…_CACHE``, ``$XDG_CACHE_HOME/NAME`` or ``~/.cache/NAME``, whichever applies
        first.
        """
        return self._folder("CACHE", ".cache", environ)

    def _folder(self, what: str, home: str, environ: Mapping[str, str]) -> Path:
        given = environ.get(self.prefix + what)
        if given:
            path = Path(given)
            if path.parts[:1] == ("~",) and environ.get("HOME"):
                # expanduser would read the environment of the process, not the given environment.
                path = Path(environ["HOME"], *path.parts[1:])
            return path.expanduser().absolute()
        base = environ.get(f"XDG_{what}_HOME", "")
        if os.path.isabs(base):  # the XDG specification says to ignore relative paths
            return Path(base) / self.name
        return Path(environ.get("HOME") or Path.home()) / home / self.name

    def parse_pair(self, text: str) -> tuple[str, Raw]:
        """Split a ``key=value`` argument from the command line for ``load(overrides=…)``.

        Raises:
            SettingsError: The text has no ``=`` or no key, or the key has wrong quotes.
        """
        key, value = split_pair(text)
        if not key:
            raise SettingsError(
                [f"command line: {text!r} is not of the form key=value, as in shell.timeout=5"]
            )
        try:
            split_key(key)
        except ValueError as error:
            example = 'a name with a dot is quoted, as in roles."openai/gpt-4.1"=…'
            raise SettingsError(
                [f"command line: {key!r} is not a key: {error}; {example}"]
            ) from None
        return key, Raw(value)

    def load(
        self,
        sections: Iterable[type],
        *,
        workspace: Path | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] = os.environ,
        known: Collection[str] | None = (),
        strict: bool = True,
    ) -> Settings:
        """Read all sources and return the settings.

        Args:
            sections: The classes of all sections.
            workspace: The project: a folder whose ``.NAME/settings.toml`` is read.
            overrides: The values from the command line, by dotted key; ``Raw`` values are parsed.
            environ: The environment.
            known: Names of further sections, which are not checked. ``None`` leaves all other
                sections unchecked.
            strict: Whether mistakes are raised. If mistakes are not raised, ``problems`` lists
                them, and invalid values are ignored.

        Raises:
            SettingsError: A source has mistakes; the error lists the mistakes in all sources.
            PluginError: Two different classes declare one section.
        """
        by_name = _by_name(sections)
        top = members(by_name.get(""), (), Info()) or {}
        root = {name: (cls, Info()) for name, cls in by_name.items() if name} | top
        problems: list[str] = []
        ignored: list[str] = []
        # The order is from the weakest source to the strongest.
        sources = [*file(self.config_folder(environ) / FILE, False, problems)]
        if workspace:
            sources += file(workspace / f".{self.name}" / FILE, True, problems)
        sources += environment(self.prefix, root, environ, known, problems)
        for key, value in (overrides or {}).items():
            sources.append(single("command line", key, value))

        def top_defaults() -> dict[str, Any]:
            return attrs.asdict(by_name[""]()) if "" in by_name else {}

        texts = {source.name: source.text for source in sources}
        tree, origin = _checked(sources, root, known, problems, ignored, top_defaults)
        values = {}
        rows: list[Explained] = []
        for name, cls in by_name.items():
            if name:
                given = tree.get(name, {})
            else:
                given = {key: tree[key] for key in top if key in tree}
            values[name], explained = _create_section(cls, given, origin, problems, texts)
            rows += explained
        if problems and strict:
            raise SettingsError(problems, hint=self.hint)
        return Settings(rows, problems, values, self, ignored)


def _by_name(sections: Iterable[type]) -> dict[str, Any]:
    """Return the sections by name.

    Raises:
        PluginError: Two different classes declare one section.
    """
    found: dict[str, Any] = {}
    for cls in sections:
        name: str = cls.__section__  # type: ignore[attr-defined]
        if found.setdefault(name, cls) is not cls:
            raise PluginError(f"Two classes declare the settings section [{name}].")
    return found


def _checked(
    sources: Iterable[Source],
    root: dict[str, Any],
    known: Collection[str] | None,
    problems: list[str],
    ignored: list[str],
    defaults: Callable[[], dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the valid values of all sources, and the source of each by dotted key."""
    # Imported late, because many processes only declare settings.
    from hilum.settings.reader import Reader

    tree: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        # The project's limits are compared with the values that apply without the project.
        before = {}
        if source.project and source.data:
            before = _leaves(_merge(defaults() | _defaults(root), tree))
        where = source.kind + source.name
        reader = Reader(
            where,
            problems,
            {},
            project=source.project,
            before=before,
            ignored=ignored,
            text=source.text,
        )
        data = {}
        for name, value in source.data.items():
            if name in root or (known is not None and name not in known):
                data[name] = value
        tree = _merge(tree, reader.read((root, Info()), data))
        origin |= dict.fromkeys(reader.leaves, source.name)
    return tree, origin


def _defaults(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of all settings, with sections as tables."""
    found: dict[str, Any] = {}
    for name, (kind, _) in root.items():
        if attrs.has(kind) and not required(kind):
            found[name] = attrs.asdict(kind())
    return found


def _leaves(tree: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return the values in a tree, including tables, by dotted key."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        at = f"{key}.{name}" if key else name
        found[at] = value
        if isinstance(value, Mapping):
            found |= _leaves(value, at)
    return found


def _create_section(
    cls: Any,
    given: dict[str, Any],
    origin: dict[str, str],
    problems: list[str],
    texts: Mapping[str, str],
) -> tuple[Any, list[Explained]]:
    """Create a section from its defaults and given values, and describe each value's source.

    Args:
        cls: The class of the section.
        given: The values from the sources.
        origin: The name of the source of each value, by dotted key.
        problems: A list to which one message for each mistake is added.
        texts: The texts of those sources that are files, by name of the source.
    """
    from hilum.settings.reader import Reader

    name = cls.__section__
    defaults = cls()
    names = dict.fromkeys(source for key, source in origin.items() if key.startswith(f"{name}."))
    text = texts.get(next(iter(names)), "") if len(names) == 1 else ""
    reader = Reader(", ".join(names), problems, {}, whole=True, text=text)
    section = reader.read((cls, Info()), _merge(attrs.asdict(defaults), given), name)
    rows = []
    for key, (value, info) in reader.leaves.items():
        shown = value
        if info.secret:
            shown = "set" if value else "not set"
        where = origin.get(key, "default")
        recorded = _is_recorded(value, info)
        rows.append(Explained(key, shown, where, info.help, info.secret, recorded))
    return defaults if section is attrs.NOTHING else section, rows


def _is_recorded(value: object, info: Info) -> bool:
    """Return whether the log of a session contains a value; see ``Explained``.

    Texts and lists may contain keys, addresses and names, which a log must not contain.
    """
    if info.secret:
        return False
    if info.choice or isinstance(value, bool):
        return info.project is not False
    # JSON has no infinite numbers.
    return isinstance(value, int | float) and isfinite(value)


def _merge(low: Any, high: Any) -> Any:
    """Merge tables key by key; any other value replaces the weaker one."""
    if not isinstance(low, dict) or not isinstance(high, dict):
        return high
    merged = dict(low)
    for name, value in high.items():
        merged[name] = _merge(low.get(name), value)
    return merged
