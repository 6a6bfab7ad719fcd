"""Adds the checks that users have signed to the rules of a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import attrs
from hilum_checks import WORKSPACE, Check, compile_lines
from hilum_checks.model import Tools
from msgspec.structs import replace

from hilum_rules.discovery import WorkspacePaths
from hilum_rules.lock_file import Entry, LockFile, digest_fields, read_lock
from hilum_rules.rule import LockChange, Problem, Rule, RulesFile, RuleType, problems_in
from hilum_rules.source import digest_text


@attrs.frozen
class Locks:
    """The lock of a project, and the user's own.

    Attributes:
        paths: The paths of the workspace.
        project: The lock that is committed with the project, which binds everybody.
        user: The lock for the user's own rules, next to the user's settings.
    """

    paths: WorkspacePaths
    project: LockFile
    user: LockFile

    @classmethod
    def read(cls, paths: WorkspacePaths) -> Locks:
        """Read both locks. Blocks."""
        project, user = paths.locks
        return cls(
            paths,
            read_lock(project, paths.display(project), paths.top),
            read_lock(user, paths.display(user), paths.config),
        )

    def of(self, origin: str) -> LockFile:
        """Return the lock for rules of an origin."""
        return self.project if origin == "project" else self.user

    def name_file(self, rule_path: str, origin: str) -> str:
        """Return the name of a rules file in its lock.

        A project's lock is at the top of its repository, so that the names in it are the same in
        every folder of the repository.

        Args:
            rule_path: The displayed path of the file.
            origin: Its origin.
        """
        if origin != "project" or rule_path.startswith(("/", "~")):
            return rule_path
        inner = os.path.relpath(self.paths.workspace, self.paths.top)
        return os.path.normpath(os.path.join(inner, rule_path))


def hash_rule(rule: Rule) -> str:
    """Return the hash that identifies a rule in a lock.

    It changes with the rule's text and the headings above it.
    """
    return digest_fields([rule.section, rule.lead, " ".join(rule.content.split())])


def sign_rules(files: Iterable[RulesFile], locks: Locks) -> tuple[list[RulesFile], list[Problem]]:
    """Return the files with the signed checks of their rules, and the problems in the locks.

    A signed check only restricts: it is added to the check that a rule has already, and a decision
    that a sentence is advice removes no check. A lock therefore needs no trust.

    Args:
        files: The rules files.
        locks: The locks.
    """
    signer = Signer(locks)
    signed = [signer.sign_file(file) for file in files]
    for lock, origin in ((locks.project, "project"), (locks.user, "user")):
        signer.report_stale(lock)
        signer.problems += problems_in(lock.shown, lock.mistakes, LockChange)
        signed += _make_files(lock, origin)
    return signed, signer.problems


class Signer:
    """Applies the entries of locks to rules, and collects the problems.

    Attributes:
        problems: The problems found so far.
    """

    def __init__(self, locks: Locks) -> None:
        self.locks = locks
        self.problems: list[Problem] = []
        self._used: set[Entry] = set()
        self._files: set[str] = set()

    def sign_file(self, file: RulesFile) -> RulesFile:
        """Return a file with the signed checks of its rules."""
        lock = self.locks.of(file.origin)
        self._files.add(self.locks.name_file(file.path, file.origin))
        if not lock.entries:
            return file
        rules = tuple(self._sign_rule(rule, file.origin, lock) for rule in file.rules)
        if rules == file.rules:
            return file
        texts = [f"{rule.id} {rule.why}" for rule in rules]
        # The hash of the file changes with its signed checks, so that a session reports them.
        source_hash = digest_text("\n".join([file.source_hash, *texts]))
        return replace(file, rules=rules, source_hash=source_hash)

    def _sign_rule(self, rule: Rule, origin: str, lock: LockFile) -> Rule:
        name = self.locks.name_file(rule.path, origin)
        self._files.add(name)
        for entry in self._find(rule, name, lock):
            rule = self._apply(rule, entry, lock)
        return rule

    def _find(self, rule: Rule, name: str, lock: LockFile) -> Iterator[Entry]:
        digest = hash_rule(rule)
        for entry in lock.entries:
            if entry.file != name:
                continue
            is_same = (entry.section, entry.sentence) == (rule.section, rule.sentence)
            # An entry whose hash was edited still holds, because it only restricts.
            if entry.hash == digest or (is_same and not entry.is_signed):
                self._used.add(entry)
                yield entry

    def _apply(self, rule: Rule, entry: Entry, lock: LockFile) -> Rule:
        if not entry.is_signed:
            effect = "holds as it is" if entry.enforce else "has no effect"
            message = (
                f"This entry was edited by hand, and {effect}. Restore it, for example with Git, or"
                " delete it and sign again with `hilum rules compile`."
            )
            self._report(lock, entry, message, LockChange)
        if not entry.enforce:
            if rule.is_enforced or not entry.is_signed:
                # Nobody is asked again about the part of a sentence that its check leaves out.
                is_decided = rule.is_decided or (rule.is_partial and entry.is_signed)
                return replace(rule, is_decided=is_decided)
            return replace(rule, why=f"advice: {entry.advice}", is_decided=True)
        compiled, mistakes = compile_lines(entry.enforce, folder=rule.folder)
        for _, mistake in mistakes:
            message = f"A signed check cannot be read: {mistake}"
            self._report(lock, entry, message, LockChange)
        if compiled.check is None:
            return rule
        check = _join(rule.check, compiled.check)
        why = f"signed in {lock.shown}: {check.summary}"
        return replace(
            rule,
            check=check,
            why=why,
            is_decided=entry.is_signed and not mistakes,
            type=RuleType.HARD_CONSTRAINT,
        )

    def _report(
        self, lock: LockFile, entry: Entry, message: str, kind: type[Problem] = Problem
    ) -> None:
        self.problems.append(kind(lock.shown, entry.line, message))

    def is_stale(self, entry: Entry) -> bool:
        """Return whether the sentence of an entry is not in its file any more."""
        return entry not in self._used and entry.file in self._files

    def report_stale(self, lock: LockFile) -> None:
        """Report entries that apply to no sentence."""
        for entry in lock.entries:
            if self.is_stale(entry):
                self._report(
                    lock,
                    entry,
                    f"The sentence is no longer in {entry.file}, so its decision does not apply;"
                    " `hilum rules compile` asks about new sentences.",
                )
            # A file that is not loaded may belong to a nested folder that is not in use.
            elif (
                entry not in self._used
                and lock is self.locks.project
                and not os.path.lexists(self.locks.paths.top / entry.file)
            ):
                self._report(lock, entry, f"There is no file {entry.file}.")


def _make_files(lock: LockFile, origin: str) -> Iterator[RulesFile]:
    """Yield rules files with the checks of a lock, or of its entries, that could not be read.

    A mistake in an entry must not lift the restriction that somebody signed.
    """
    if lock.broken:
        rules = [_make_broken_rule(lock, *each) for each in lock.broken]
        yield _make_file(lock.shown, lock, origin, rules)
    if lock.is_unreadable:
        yield _make_file(f"{lock.shown} (unreadable)", lock, origin, [_ask_about_changes(lock)])


def _make_broken_rule(lock: LockFile, line: int, texts: Sequence[str]) -> Rule:
    check = compile_lines(texts, folder=WORKSPACE)[0].check
    why = "not enforced: it names nothing"
    if check is not None:
        why = f"fails closed until corrected: {check.summary}"
    return _make_rule(lock, line, f"enforce: {'; '.join(texts)}", check, why)


def _ask_about_changes(lock: LockFile) -> Rule:
    """Return a rule with a check on every change, because nobody knows what was signed."""
    sentence = "The signed checks cannot be read, so every change needs approval."
    check = Check((("ask", Tools(risk="write")), ("ask", Tools(risk="execute"))))
    why = "fails closed until the file is restored, or deleted and signed again"
    return replace(_make_rule(lock, 0, sentence, check, why), is_passing=True)


def _make_rule(lock: LockFile, line: int, sentence: str, check: Check | None, why: str) -> Rule:
    """Return a rule that takes the place of something in a lock that could not be read."""
    return Rule(
        digest_text(f"{lock.shown}\0{line}\0{sentence}")[:10],
        RuleType.HARD_CONSTRAINT,
        "",
        sentence,
        lock.shown,
        line,
        check=check,
        why=why,
        is_decided=True,
    )


def _make_file(shown: str, lock: LockFile, origin: str, rules: Sequence[Rule]) -> RulesFile:
    digest = digest_text("\n".join(rule.content for rule in rules))
    sources = (lock.path,)
    return RulesFile(
        shown, lock.path, "lock", origin, rules=tuple(rules), source_hash=digest, sources=sources
    )


def _join(first: Check | None, second: Check) -> Check:
    """Return a check with the constraints of both."""
    if first is None:
        return second
    return Check(tuple(dict.fromkeys([*first.parts, *second.parts])))
