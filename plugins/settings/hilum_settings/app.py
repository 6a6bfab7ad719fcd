"""An application and its settings: where they stand, and what holds when all sources are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import attrs

from hilum_settings.declare import Info, members, required
from hilum_settings.errors import DeclarationError, SettingsError
from hilum_settings.sources import (
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
    """One effective value and where it came from: ``default``, a file, a variable, or
    ``command line``.

    The value of a secret is ``set`` or ``not set``.
    """

    key: str
    value: object
    source: str
    help: str
    secret: bool


class Settings:
    """All sections with their effective values.

    Attributes:
        explained: Every effective value with its source, in the order of declaration.
        problems: What was wrong, where ``load`` does not raise.
        ignored: What a project's file says and may not, a sentence each: it does not count.
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
        self.ignored = tuple(ignored)
        self._sections = sections
        self._app = app

    def get(self, kind: type[T]) -> T:
        """Return a section by its class.

        Raises:
            DeclarationError: The class was not among those that were loaded.
        """
        name = getattr(kind, "__section__", kind.__name__)
        if not isinstance(found := self._sections.get(name), kind):
            raise self._app.misuse(
                f"No settings were loaded for {kind.__name__}.", hint=self._app.unloaded
            )
        return found


class App(NamedTuple):
    """An application that has settings: what is its own in them.

    Args:
        name: ``hilum`` has its files in ``~/.config/hilum`` and in a project's ``.hilum``, and
            variables ``HILUM_…``.
        error: Makes the error for mistakes in settings, of all of them and a hint:
            ``error(problems, hint="…")``.
        misuse: Makes the error for mistakes in the program, of a message and a hint:
            ``misuse(message, hint="…")``.
        hint: What to do about mistakes in settings.
        unloaded: What to do when a section is asked for that was not loaded.
    """

    name: str
    error: Callable[..., Exception] = SettingsError
    misuse: Callable[..., Exception] = DeclarationError
    hint: str = ""
    unloaded: str = ""

    @property
    def prefix(self) -> str:
        """What the application's variables begin with."""
        return f"{self.name}_".replace("-", "_").upper()

    def config_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """The user's configuration: variable ``…_CONFIG``, else ``$XDG_CONFIG_HOME/NAME``, else
        ``~/.config/NAME``.
        """
        return self._folder("CONFIG", ".config", environ)

    def data_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """The user's data: variable ``…_DATA``, else ``$XDG_DATA_HOME/NAME``, else
        ``~/.local/share/NAME``.
        """
        return self._folder("DATA", ".local/share", environ)

    def cache_folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """What can be made again: variable ``…_CACHE``, else ``$XDG_CACHE_HOME/NAME``, else
        ``~/.cache/NAME``.
        """
        return self._folder("CACHE", ".cache", environ)

    def _folder(self, what: str, home: str, environ: Mapping[str, str]) -> Path:
        given = environ.get(self.prefix + what)
        if given:
            path = Path(given)
            if path.parts[:1] == ("~",) and environ.get("HOME"):
                path = Path(environ["HOME"], *path.parts[1:])
            return path.expanduser().absolute()
        base = environ.get(f"XDG_{what}_HOME", "")
        return (
            Path(base) if os.path.isabs(base) else Path(environ.get("HOME") or Path.home()) / home
        ) / self.name

    def parse_pair(self, text: str) -> tuple[str, Raw]:
        """Split ``key=value`` of the command line for ``load(overrides=…)``.

        Raises:
            SettingsError: There is no ``=``, nothing before it, or a key with wrong quotes.
        """
        key, value = split_pair(text)
        if not key:
            raise self.error(
                [f"command line: {text!r} is not of the form key=value, as in shell.timeout=5"]
            )
        try:
            split_key(key)
        except ValueError as error:
            example = 'a name with a dot is quoted, as in roles."openai/gpt-4.1"=…'
            raise self.error([f"command line: {key!r} is no key: {error}; {example}"]) from None
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
        """Read all sources and give what holds.

        Args:
            sections: The sections there are.
            workspace: The project: a folder whose ``.NAME/settings.toml`` counts.
            overrides: What the command line says, by dotted key; ``Raw`` values are parsed.
            environ: The environment.
            known: Sections that are not among these; they pass unchecked. ``None`` lets every other
                section pass.
            strict: Whether mistakes are raised; else they stand in ``problems``, and what is wrong
                counts as not set.

        Raises:
            SettingsError: With every mistake in every source.
            DeclarationError: Two different classes declare one section.
        """
        by_name: dict[str, Any] = {}
        for cls in sections:
            name: str = cls.__section__  # type: ignore[attr-defined]
            if by_name.setdefault(name, cls) is not cls:
                raise self.misuse(f"Two classes declare the settings section [{name}].")
        top = members(by_name.get(""), (), Info()) or {}
        root = {name: (cls, Info()) for name, cls in by_name.items() if name} | top
        problems: list[str] = []
        sources = [*file(self.config_folder(environ) / FILE, False, problems)]
        sources += file(workspace / f".{self.name}" / FILE, True, problems) if workspace else ()
        sources += environment(self.prefix, root, environ, known, problems)
        sources += [single("command line", key, value) for key, value in (overrides or {}).items()]
        ignored: list[str] = []

        def top_defaults() -> dict[str, Any]:
            return attrs.asdict(by_name[""]()) if "" in by_name else {}

        tree, origin = _checked(sources, root, known, problems, ignored, top_defaults)
        values = {}
        rows = []
        for name, cls in by_name.items():
            if name:
                given = tree.get(name, {})
            else:
                given = {key: tree[key] for key in top if key in tree}
            values[name], explained = _settled(cls, given, origin, problems)
            rows += explained
        if problems and strict:
            raise self.error(problems, hint=self.hint)
        return Settings(rows, problems, values, self, ignored)


def _checked(
    sources: Iterable[Source],
    root: dict[str, Any],
    known: Collection[str] | None,
    problems: list[str],
    ignored: list[str],
    defaults: Callable[[], dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the sources say together, as far as it is right, and by dotted key which of them
    said it.
    """
    from hilum_settings.reader import (
        Reader,
    )  # not needed to declare settings, which is what most do at start

    tree: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        if source.project and source.data:
            before = _leaves(_merge(defaults() | _defaults(root), tree))
        else:
            before = {}
        reader = Reader(
            source.kind + source.name,
            problems,
            {},
            project=source.project,
            before=before,
            ignored=ignored,
        )
        data = {
            n: v
            for n, v in source.data.items()
            if n in root or (known is not None and n not in known)
        }
        tree = _merge(tree, reader.read((root, Info()), data))
        origin |= dict.fromkeys(reader.leaves, source.name)
    return tree, origin


def _defaults(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of all settings, sections as tables."""
    found: dict[str, Any] = {}
    for name, (kind, _) in root.items():
        if attrs.has(kind) and not required(kind):
            found[name] = attrs.asdict(kind())
    return found


def _leaves(tree: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return the values of a tree by dotted key; a table counts itself, too."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        at = f"{key}.{name}" if key else name
        found[at] = value
        if isinstance(value, Mapping):
            found |= _leaves(value, at)
    return found


def _settled(
    cls: Any, given: dict[str, Any], origin: dict[str, str], problems: list[str]
) -> tuple[Any, list[Explained]]:
    """Create a section of its defaults and what the sources say, and explain its values."""
    from hilum_settings.reader import Reader

    name = cls.__section__
    defaults = cls()
    where = ", ".join(dict.fromkeys(s for key, s in origin.items() if key.startswith(f"{name}.")))
    reader = Reader(where, problems, {}, whole=True)
    made = reader.read((cls, Info()), _merge(attrs.asdict(defaults), given), name)
    rows = []
    for key, (value, info) in reader.leaves.items():
        shown = ("set" if value else "not set") if info.secret else value
        rows.append(Explained(key, shown, origin.get(key, "default"), info.help, info.secret))
    return defaults if made is attrs.NOTHING else made, rows


def _merge(low: Any, high: Any) -> Any:
    if isinstance(low, dict) and isinstance(high, dict):
        return low | {name: _merge(low.get(name), value) for name, value in high.items()}
    return high
