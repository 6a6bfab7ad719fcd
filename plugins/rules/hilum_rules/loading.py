"""Loads rules files: resolves imports, skips duplicates, and adds types, ids and checks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import hilum_checks
from hilum import Workspace, config_folder
from hilum_checks.heading_completion import complete_sentence, name_order
from hilum_checks.limiting import is_limiting, names_product
from msgspec.structs import replace

from hilum_rules.discovery import FoundFile, WorkspacePaths, find_paths, guess_dialect
from hilum_rules.exceptions_after import withdraw_limited
from hilum_rules.hidden_characters import escape_name
from hilum_rules.importing import ImportResolver
from hilum_rules.parsed_file import ParsedFile, parse_source
from hilum_rules.parsing import Draft
from hilum_rules.rule import (
    Problem,
    Problems,
    Rule,
    RulesFile,
    RuleType,
    problems_in,
)
from hilum_rules.sections import choose_type, find_type
from hilum_rules.source import (
    Source,
    Stamp,
    UnreadableError,
    digest_text,
    read_source,
    read_stamp,
)

if TYPE_CHECKING:
    from hilum_checks import Check, Compiled

MAX_LEAD_WORDS = 6
"""Maximum number of words in a line before a list that determines the type of its rules."""
MAX_PROBLEMS = 200
"""Maximum number of problems per file to report individually."""
_NO_STAMP = Stamp(0, 0, 0, 0, 0)
Key = tuple[Path, str]
"""A path and the format in which its file was parsed."""


class Loader:
    """Loads and caches files, so that only changed files are read again.

    Methods block; only one thread at a time may call them.

    Attributes:
        stamps: The stamps of the current files from before they were read.

    Args:
        paths: The paths of the workspace.
        limit: Maximum number of bytes to read from a file.
        import_from: Folders outside the workspace from which files may import.
    """

    def __init__(
        self, paths: WorkspacePaths, limit: int = 100_000, import_from: Iterable[str] = ()
    ) -> None:
        self.paths = paths
        self.limit = limit
        self.allowed = [Path(os.path.expanduser(folder)) for folder in import_from]
        self._parsed: dict[Key, ParsedFile] = {}
        self.stamps: dict[Path, Stamp | None] = {}
        self._compiled: dict[tuple[Rule, str], tuple[Compiled, Problems]] = {}

    # --- single files -----------------------------------------------------------------------------

    def parse(self, path: Path, dialect: str, fence: Workspace) -> ParsedFile | str:
        """Parse a file, or return why it cannot be read."""
        stamp = read_stamp(path)
        self.stamps[path] = stamp
        key = path, dialect
        known = self._parsed.get(key)
        if known and known.source.stamp == stamp and not known.may_have_changed:
            return known
        try:
            source = read_source(path, fence, self.limit)
            # The check uses the resolved path, because ``AGENTS.md`` may be a link to ``.env``.
            self._check_secret(source.real)
        except UnreadableError as error:
            # It is read again each time: the permissions of its folder may have changed.
            self._parsed.pop(key, None)
            return str(error)
        # An editor may write the same contents again; in this case, the file need not be parsed
        # again.
        if known and known.source.is_same(source):
            parsed = known.read_again(source)
        else:
            parsed = parse_source(source, dialect)
        self.stamps[path] = source.stamp
        self._parsed[key] = parsed
        return parsed

    def _check_secret(self, real: Path) -> None:
        """Reject a file with secrets, even if a repository imports it or contains a link to it."""
        from hilum_guard import explain_secret_file

        top = self.paths.top
        name = real.relative_to(top).as_posix() if real.is_relative_to(top) else real.name
        reason = explain_secret_file(name)
        if reason:
            raise UnreadableError(f"It is withheld from models: {reason}.")

    def list_uncertain(self) -> list[Key]:
        """Return the keys of the files that may have changed without a new stamp."""
        return [key for key, parsed in self._parsed.items() if parsed.may_have_changed]

    def has_changed(self) -> bool:
        """Return whether a file has changed since it was read, although its stamp is the same."""
        return any(map(self._differs, self.list_uncertain()))

    def _differs(self, key: Key) -> bool:
        """Return whether a file's contents have changed since it was parsed."""
        known = self._parsed[key]
        try:
            source = read_source(key[0], Workspace("/"), self.limit)
        except UnreadableError:
            return True
        if not known.source.is_same(source):
            return True
        self._parsed[key] = known.read_again(source)
        return False

    # --- sets of files ----------------------------------------------------------------------------

    def load_all(self, found: Sequence[FoundFile], texts: Iterable[str]) -> list[RulesFile]:
        """Load files and texts from settings; other files are no longer watched.

        Args:
            found: The files.
            texts: The texts.

        Returns:
            The files in order of precedence.
        """
        self.stamps = {}
        # The user's rules come first, because later files win and a project's rules are more
        # specific.
        files = self.load(file for file in found if file.origin == "user")
        files += self.load_texts(texts)
        files += self.load(file for file in found if file.origin != "user")
        self._parsed = {
            key: parsed for key, parsed in self._parsed.items() if key[0] in self.stamps
        }
        return files

    def load(self, found: Iterable[FoundFile]) -> list[RulesFile]:
        """Load files in order. Duplicate texts are loaded only once."""
        resolver = self._make_resolver()
        return [self._load_file(file, resolver) for file in found]

    def load_texts(self, texts: Iterable[str]) -> list[RulesFile]:
        """Load texts from settings."""
        files = []
        # They import nothing.
        resolver = self._make_resolver()
        fence = Workspace(self.paths.workspace)
        for number, text in enumerate(texts, 1):
            shown = f"settings: rules.text {number}"
            found = FoundFile(Path(), shown, "settings", fence, "settings")
            data = text.encode()
            parsed = parse_source(Source(Path(), data, len(data), _NO_STAMP), "settings")
            file = self._make_file(found, parsed, resolver)
            files.append(replace(file, dialect="agents", real=None, sources=()))
        return files

    def _make_resolver(self) -> ImportResolver:
        return ImportResolver(self.paths, self.allowed, self.parse)

    def _load_file(self, found: FoundFile, resolver: ImportResolver) -> RulesFile:
        parsed = self.parse(found.path, found.dialect, found.fence)
        if isinstance(parsed, str):
            problem = Problem(found.shown, 0, f"Not read: {parsed}", fatal=True)
            return replace(_empty_file(found), problems=(problem,))
        twin = resolver.begin(parsed, found)
        if not twin:
            return self._make_file(found, parsed, resolver)
        message = f"It has the same text as {twin}, which was read before."
        problem = Problem(found.shown, 0, message)
        return replace(_empty_file(found), problems=(problem,), source_hash=parsed.source.digest)

    def _make_file(
        self, found: FoundFile, parsed: ParsedFile, resolver: ImportResolver
    ) -> RulesFile:
        drafts = resolver.resolve(parsed, found)
        # The hash includes all imports, so a changed import also changes it.
        hashes = [f"{source.real} {source.digest}" for source in resolver.sources]
        source_hash = digest_text("\n".join([found.shown, parsed.source.digest, *hashes]))
        problems = problems_in(found.shown, parsed.problems)
        rules = self._make_rules(found, drafts, problems)
        if not (rules or problems or resolver.problems or resolver.skips_twins):
            problems.append(Problem(found.shown, 0, "It contains no rules."))
        return replace(
            _empty_file(found),
            mode=parsed.front_matter.mode,
            globs=parsed.front_matter.globs,
            description=parsed.front_matter.description,
            rules=rules,
            problems=_limit([*problems, *resolver.problems]),
            source_hash=source_hash,
            sources=(found.path, *(source.real for source in resolver.sources)),
        )

    def _make_rules(
        self, found: FoundFile, drafts: list[Draft], problems: list[Problem]
    ) -> tuple[Rule, ...]:
        """Return the rules of drafts; add the mistakes in their ``enforce:`` lines."""
        rules: list[Rule] = []
        seen = Counter[str]()
        title = _find_title(found, drafts)
        for draft in drafts:
            rule = _make_rule(draft, found, seen)
            compiled, mistakes = self._compile(rule, title)
            for index, message in mistakes:
                problems.append(Problem(rule.path, rule.enforce[index].line, message))
            rules.append(
                replace(
                    rule,
                    check=compiled.check,
                    why=compiled.why,
                    is_partial=compiled.is_partial,
                )
            )
        return tuple(withdraw_limited(rules))

    def _compile(self, rule: Rule, title: str) -> tuple[Compiled, Problems]:
        """Return the check of a rule, and the mistakes in its ``enforce:`` lines."""
        # The check does not depend on where the rule is in its file.
        key = replace(rule, id="", path="", line=0), title
        if key not in self._compiled:
            if rule.enforce:
                texts = [line.text for line in rule.enforce]
                self._compiled[key] = hilum_checks.compile_lines(texts, folder=rule.folder)
            else:
                self._compiled[key] = _compile_sentence(rule, title), []
        return self._compiled[key]


def _short_cells(rule: Rule) -> list[str]:
    """Return the short cells of a table's row, which may say where it applies: "Frontend"."""
    cells = rule.content.split("; ") if rule.is_row else []
    values = [cell.partition(": ")[2] for cell in cells]
    return [value for value in values if 0 < len(value.split()) <= MAX_LEAD_WORDS // 2]


def _find_title(found: FoundFile, drafts: list[Draft]) -> str:
    """Return the heading above everything in a file, if it only names the project."""
    outermost = {draft.titles[:1] for draft in drafts if draft.path == found.shown}
    title = "".join(*outermost) if len(outermost) == 1 else ""
    return title if names_product(title) else ""


def _compile_sentence(rule: Rule, title: str) -> Compiled:
    headings = rule.section.split(" > ")
    # "Pre-PR checklist > Tests": what the outer heading says of the order holds for the inner one.
    is_step = rule.content.startswith("[ ]") or " pass" in rule.content
    orders = [each for each in headings if is_step and name_order(each)]
    heading = "" if rule.lead else (orders or headings)[-1]
    inner = headings[1:] if headings[0] == title else headings
    limit = next(filter(is_limiting, reversed((*inner, *_short_cells(rule)))), "")
    all_compiled = [
        hilum_checks.compile_rule(sentence, hard=rule.hard, folder=rule.folder)
        for sentence in complete_sentence(
            rule.sentence, heading, rule.content, is_item=rule.depth >= 0
        )
    ]
    compiled = next((each for each in all_compiled if each.check is not None), all_compiled[0])
    if compiled.check is None:
        return compiled
    # A rule below "When deploying" would otherwise be enforced at all times. "Before committing"
    # is a part of the check.
    is_order = compiled is not all_compiled[0] and limit == heading and name_order(heading)
    if limit and not is_order and not _repeats_order(rule, limit):
        shown = escape_name(limit)[:60]
        return hilum_checks.Compiled(None, f"advice: it is under {shown!r}, which may limit it")
    return _narrow(compiled, compiled.check, headings)


def _repeats_order(rule: Rule, limit: str) -> bool:
    """Return whether the line above a list says what the heading says: "Before committing"."""
    order = name_order(limit)
    return bool(order) and name_order(rule.lead.strip(" *_:：")).lower() == order.lower()


def _narrow(compiled: Compiled, check: Check, headings: list[str]) -> Compiled:
    """Return a check for the files that the headings name: "Tests", "Python"."""
    from hilum_checks.label_scopes import narrow_check

    narrowed = narrow_check(check, headings)
    if narrowed is None:
        why = "advice: the headings above it may limit it to some files"
        return attrs.evolve(compiled, check=None, why=why)
    why = compiled.why.replace(check.summary, narrowed.summary)
    return attrs.evolve(compiled, check=narrowed, why=why)


def _make_rule(draft: Draft, found: FoundFile, seen: Counter[str]) -> Rule:
    """Create a rule from a draft; ``seen`` gives rules with the same text different ids."""
    kind = RuleType.HARD_CONSTRAINT
    if not draft.enforce:
        kind = choose_type([*draft.titles, *_hard_leads(draft.lead)])
    section = " > ".join(draft.titles)
    content = " ".join(draft.content.split())
    identity = digest_text("\0".join([draft.path, section, draft.lead, content]))[:10]
    seen[identity] += 1
    if seen[identity] > 1:
        identity = f"{identity}-{seen[identity]}"
    return Rule(
        identity,
        kind,
        section,
        draft.content,
        draft.path,
        draft.line,
        found.folder,
        draft.lead,
        draft.depth,
        draft.enforce,
        is_row=draft.is_row,
    )


def _empty_file(found: FoundFile) -> RulesFile:
    return RulesFile(
        found.shown,
        found.path,
        found.dialect,
        found.origin,
        found.folder,
        name=found.name,
        base=found.base,
    )


def _limit(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return the first problems and a count of the rest, because every line may cause one."""
    rest = problems[MAX_PROBLEMS:]
    if not rest:
        return tuple(problems)
    message = f"And {len(rest):,} more problems, the last on line {rest[-1].line}."
    is_fatal = any(problem.fatal for problem in rest)
    summary = replace(rest[0], message=message, fatal=is_fatal)
    return (*problems[:MAX_PROBLEMS], summary)


def _hard_leads(lead: str) -> list[str]:
    """Return the short lines, such as ``You must never:``, that make the rules in a list hard."""
    return [
        line
        for line in lead.split("\n")
        if len(line.split()) <= MAX_LEAD_WORDS and find_type(line) is RuleType.HARD_CONSTRAINT
    ]


def load_rules(path: str | Path) -> RulesFile:
    """Load one rules file with its imports; its name determines the format. Blocks.

    Args:
        path: The file.

    Returns:
        The file with its rules and problems. An unreadable file has no rules and a fatal problem;
        no exception is raised.
    """
    absolute = Path(os.path.expanduser(path)).absolute()
    # The user named the file, so its links may lead anywhere.
    found = FoundFile(
        absolute,
        escape_name(str(path)),
        guess_dialect(absolute),
        Workspace("/"),
        name=escape_name(absolute.name.split(".")[0]),
    )
    return Loader(find_paths(absolute.parent, config_folder())).load([found])[0]
