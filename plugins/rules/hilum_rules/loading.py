"""Files of rules as they hold together: imports followed, the same text once, each rule with its
type, its id and its check.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import msgspec
from hilum import Workspace

from hilum_rules.fields import Fields, read_fields
from hilum_rules.importing import Flat, Importing
from hilum_rules.parsing import Draft, drafts
from hilum_rules.places import Found, Where, dialect_of, in_one_line, where
from hilum_rules.reading import Source, Stamp, Unread, read, stamp
from hilum_rules.rule import Mode, Problem, Rule, RulesFile, RuleType
from hilum_rules.sections import bounds, meaning, type_of
from hilum_rules.subjects import completed

if TYPE_CHECKING:
    from hilum_rules.checks import Check

    Judged = tuple[Check | None, str, list[tuple[int, str]]]

RACY = 2_000_000_000
"""Nanoseconds within which a file may change twice without showing it in its stamp."""
SHORT_LEAD = 6
MOST_PROBLEMS = 200
"""Problems of a file that are told one by one."""
MOST_KEPT = 1_000
"""Versions of files whose rules are remembered."""


@attrs.frozen
class Parsed:
    """A file by itself, before imports."""

    source: Source
    fields: Fields
    drafts: list[Draft]
    problems: list[tuple[int, str]]
    hash: str
    text_hash: str
    read_at: int


class Loader:
    """Reads files and remembers what it read, so that only what changed is read again.

    Blocks; one thread at a time.

    Args:
        where: The places of the workspace.
        limit: Most bytes of a file that are read.
        import_from: Folders outside of the workspace from which files may import.
    """

    def __init__(self, where: Where, limit: int = 100_000, import_from: Iterable[str] = ()) -> None:
        self.where = where
        self.limit = limit
        self.allowed = [Path(folder).expanduser() for folder in import_from]
        self._parsed: dict[tuple[Path, str], Parsed | str] = {}
        self._stamps: dict[Path, Stamp | None] = {}
        self._made_rules: dict[tuple[object, ...], tuple[tuple[Rule, ...], list[Problem]]] = {}
        self._compiled: dict[tuple[object, ...], Judged] = {}

    # --- files by themselves ----------------------------------------------------------------------

    def parse(self, path: Path, dialect: str, fence: Workspace) -> Parsed | str:
        """Read and take apart a file, or say why it cannot be read."""
        now = self._stamps[path] = stamp(path)
        known = self._parsed.get((path, dialect))
        if (
            isinstance(known, Parsed)
            and known.source.stamp == now
            and known.read_at - known.source.stamp.modified > RACY
        ):
            return known
        try:
            source = read(path, fence, self.limit)
        except Unread as error:
            self._parsed[path, dialect] = str(error)
            return str(error)
        why = self._secret(source.real)
        if why:
            self._parsed[path, dialect] = why
            return why
        digest = hashlib.sha256(source.data).hexdigest()
        if not (
            isinstance(known, Parsed) and known.hash == digest and known.source.size == source.size
        ):
            known = _parse(source, dialect, digest)
        known = attrs.evolve(known, source=source, read_at=time.time_ns())
        self._stamps[path] = source.stamp
        self._parsed[path, dialect] = known
        return known

    def _secret(self, real: Path) -> str:
        """Return why the text of a file gets to no model, though a repository imports it, or has a
        link to it.
        """
        from hilum_guard import secret_file

        top = self.where.top
        why = secret_file(
            real.relative_to(top).as_posix() if real.is_relative_to(top) else real.name
        )
        return f"It is kept from models: {why}." if why else ""

    def changed(self) -> bool:
        """Return whether a file that was read before, or was missing, is another one now.

        Cheap: a look at each.
        """
        for path, before in self._stamps.items():
            if stamp(path) != before:
                return True
        return any(
            isinstance(known, Parsed)
            and known.read_at - known.source.stamp.modified <= RACY
            and self._differs(path, known)
            for (path, _), known in self._parsed.items()
        )

    def _differs(self, path: Path, known: Parsed) -> bool:
        """Return whether a file that was written just before it was read has another content by
        now.
        """
        try:
            source = read(path, Workspace("/"), self.limit)
        except Unread:
            return True
        same = hashlib.sha256(source.data).hexdigest() == known.hash
        if same and time.time_ns() - source.stamp.modified > RACY:
            for key, value in self._parsed.items():
                if value is known:
                    self._parsed[key] = attrs.evolve(known, source=source, read_at=time.time_ns())
                    break
        return not same

    def begin(self) -> None:
        """Begin to read a set of files: those that are not read again are watched no more."""
        self._stamps = {}

    def end(self) -> None:
        """Forget the files that were not read again."""
        self._parsed = {
            key: parsed for key, parsed in self._parsed.items() if key[0] in self._stamps
        }

    # --- files together ---------------------------------------------------------------------------

    def load(self, found: Iterable[Found]) -> list[RulesFile]:
        """Read files in their order; what was there before is not given again."""
        importing = Importing(self.where, self.allowed, self.parse)
        return [self._file(one, importing) for one in found]

    def texts(self, texts: Iterable[str]) -> list[RulesFile]:
        """Make files of texts from settings."""
        made = []
        for number, text in enumerate(texts, 1):
            shown = f"settings: rules.text {number}"
            found = Found(Path(), shown, "agents", Workspace(self.where.workspace), "settings")
            parsed = _parse(
                Source(Path(), text.encode(), len(text), Stamp(0, 0, 0, 0, 0)),
                "settings",
                _digest(text.encode()),
            )
            made.append(
                self._made(
                    found, parsed, [(draft, shown, ()) for draft in parsed.drafts], (), real=None
                )
            )
        return made

    def _file(self, found: Found, importing: Importing) -> RulesFile:
        parsed = self.parse(found.path, found.dialect, found.fence)
        empty = RulesFile(
            found.shown,
            found.path,
            found.dialect,
            found.origin,
            found.folder,
            name=found.name,
            base=found.base,
        )
        if isinstance(parsed, str):
            return msgspec.structs.replace(
                empty, problems=(Problem(found.shown, 0, f"Not read: {parsed}", fatal=True),)
            )
        always = parsed.fields.mode is Mode.ALWAYS
        twin = importing.twin(parsed, found, always)
        if twin:
            why = f"Its text is that of {twin}, which is read already: it stands once."
            return msgspec.structs.replace(
                empty, problems=(Problem(found.shown, 0, why),), source_hash=parsed.hash
            )
        flat = list(importing.flat(parsed, found, always))
        return self._made(found, parsed, flat, importing.taken(), real=found.path)

    def _made(
        self,
        found: Found,
        parsed: Parsed,
        flat: list[Flat],
        imported: tuple[list[Problem], list[tuple[Path, str]]] | tuple[()],
        real: Path | None,
    ) -> RulesFile:
        problems = [Problem(found.shown, line, message) for line, message in parsed.problems]
        more, sources = imported or ([], [])
        digest = _digest(
            "\n".join(
                [found.shown, parsed.hash, *(f"{path} {hash_}" for path, hash_ in sources)]
            ).encode(errors="replace")
        )
        rules, wrong = self._kept(found, flat, digest)
        problems += wrong
        if not rules and not problems and not more:
            problems.append(Problem(found.shown, 0, "There are no rules in it."))
        return RulesFile(
            found.shown,
            real,
            found.dialect,
            found.origin,
            found.folder,
            parsed.fields.mode,
            parsed.fields.globs,
            parsed.fields.description,
            found.name,
            rules,
            _bounded([*problems, *more]),
            digest,
            (*([real] if real else []), *(path for path, _ in sources)),
            found.base,
        )

    def _kept(
        self, found: Found, flat: list[Flat], digest: str
    ) -> tuple[tuple[Rule, ...], list[Problem]]:
        """Return the rules of a file, made anew only if it or what it imports is not as it was."""
        key = digest, found.folder, tuple((draft.line, path) for draft, path, _ in flat)
        if key not in self._made_rules:
            while len(self._made_rules) >= MOST_KEPT:
                del self._made_rules[next(iter(self._made_rules))]
            wrong: list[Problem] = []
            self._made_rules[key] = tuple(self._rules(found, flat, wrong)), wrong
        return self._made_rules[key]

    def _rules(self, found: Found, flat: list[Flat], problems: list[Problem]) -> Iterator[Rule]:
        seen: dict[str, int] = {}
        for draft, path, above in flat:
            titles = (*above, *draft.titles)
            if draft.enforce:
                kind = RuleType.HARD_CONSTRAINT
            else:
                kind = type_of([*titles, *_short(draft.lead)])
            section = " > ".join(titles)
            identity = _digest(
                "\0".join([path, section, draft.lead, " ".join(draft.content.split())]).encode()
            )[:10]
            seen[identity] = seen.get(identity, 0) + 1
            if seen[identity] > 1:
                identity = f"{identity}-{seen[identity]}"
            rule = Rule(
                identity,
                kind,
                section,
                draft.content,
                path,
                draft.line,
                found.folder,
                draft.lead,
                draft.depth,
                draft.enforce,
            )
            check, why, wrong = self._compile(rule)
            problems += [
                Problem(path, rule.enforce[index].line, message) for index, message in wrong
            ]
            yield msgspec.structs.replace(rule, check=check, why=why)

    def _compile(self, rule: Rule) -> Judged:
        title = "" if rule.lead else rule.section.rpartition(" > ")[2]
        bounding = next((each for each in reversed(rule.section.split(" > ")) if bounds(each)), "")
        key = rule.sentence, title, bounding, rule.hard, rule.folder, rule.enforce
        if key not in self._compiled:
            from hilum_rules import checks

            if rule.enforce:
                texts = [line.text for line in rule.enforce]
                compiled, wrong = checks.compile_lines(
                    texts, folder=rule.folder, sentence=rule.sentence
                )
            else:
                meanings = completed(rule.sentence, title)
                made = [
                    checks.compile_rule(text, hard=rule.hard, folder=rule.folder)
                    for text in meanings
                ]
                compiled = next((one for one in made if one.check), made[0])
                if compiled.check and bounding:
                    why = (
                        f"advice: it stands under {in_one_line(bounding)[:60]!r}, which may"
                        " bound it"
                    )
                    compiled = checks.Compiled(None, why)
                wrong = []
            self._compiled[key] = compiled.check, compiled.why, wrong
        return self._compiled[key]


def _parse(source: Source, dialect: str, digest: str) -> Parsed:
    data = source.data
    cut = ""
    if source.size > len(data):
        whole = data[: data.rfind(b"\n") + 1] or data
        lines = whole.count(b"\n") + 1
        cut = (
            f"What follows is not read: the file has {source.size:,} bytes, of which {len(whole):,}"
            " are."
        )
        data = whole
    fields = read_fields(data, dialect)
    found, problems = drafts(fields.body, fields.line)
    problems = [*fields.problems, *problems]
    if cut:
        problems.append((lines, cut))
    text_hash = _digest(" ".join(fields.body.split()).encode())
    return Parsed(source, fields, found, problems, digest, text_hash, 0)


def _bounded(problems: list[Problem]) -> tuple[Problem, ...]:
    """A file can have a problem on each line: the first ones tell what is wrong with it."""
    if len(problems) > MOST_PROBLEMS:
        rest = problems[MOST_PROBLEMS:]
        told = f"And {len(rest):,} problems more, the last on line {rest[-1].line}."
        problems = [
            *problems[:MOST_PROBLEMS],
            Problem(rest[0].path, rest[0].line, told, any(one.fatal for one in rest)),
        ]
    return tuple(problems)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _short(lead: str) -> list[str]:
    """A line before a list counts as a title if it is short: ``You must never:``."""
    return [
        line
        for line in lead.split("\n")
        if 0 < len(line.split()) <= SHORT_LEAD and meaning(line) is RuleType.HARD_CONSTRAINT
    ]


def load_rules(path: str | Path) -> RulesFile:
    """Read one file of rules of any dialect, which its name tells, with what it imports. Blocks.

    Args:
        path: The file.

    Returns:
        Its rules and every problem. A file that cannot be read gives no rules and a fatal problem;
        nothing is raised.
    """
    from hilum import config_folder

    absolute = Path(path).expanduser().absolute()
    places = where(absolute.parent, config_folder())
    found = Found(
        absolute,
        in_one_line(str(path)),
        dialect_of(absolute),
        Workspace("/"),
        name=in_one_line(absolute.name.split(".")[0]),
    )  # the user named it
    return Loader(places).load([found])[0]
