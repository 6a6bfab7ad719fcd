"""Read rules about the text of files: "never use `eval()`", "lines under 100 characters"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks.clauses import Clause, read_clauses
from hilum_checks.code_names import (
    DATA,
    TEXTS,
    code_expression,
    ignored_parts,
    is_code,
    keyword_files,
)
from hilum_checks.commit_messages import WRITING
from hilum_checks.file_rules import USUAL_BRANCHES, patterns_of
from hilum_checks.label_scopes import TESTS
from hilum_checks.model import SOURCE_CODE, Constraint, Content
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

_WRITING_CODE = ("use", "commit", "call", "add", "introduce", "create", "contain", "")
_CONFIG = ("config/**", "*.config.*", "config.*")


def read_code(verb: str, clause: Clause, scope: Scope) -> Content | None:
    """Read "never use `eval()`": text that must not be added to files of code."""
    nouns = clause.nouns - (
        {"construct", "it"} if clause.places else {"construct", "it", "file", "bare"}
    )
    known = "construct|source|tests|config files|it" if clause.places else "construct|it|file|bare"
    is_plain = clause.has_only("names", "scopes", nouns=known, places="in|outside")
    if verb not in _WRITING_CODE or not is_plain or len(clause.places) > 1:
        return None
    if bool(nouns or clause.scopes) != bool(clause.places) or (nouns and clause.scopes):
        return None
    # "Do not call `sqlite3.connect` directly".
    is_call = verb == "call" and all(map(_DOTTED_CALL.fullmatch, clause.names))
    if not clause.names or not (is_call or all(is_code(name) for name in clause.names)):
        return None
    if not all(quoted_names.is_path(name, named=True) for name in clause.scopes):
        return None
    if USUAL_BRANCHES.intersection(clause.scopes):
        return None
    expression = "|".join(map(code_expression, clause.names))
    ignored = ignored_parts(clause.names)
    places = patterns_of(clause.scopes, scope)
    for noun, files in (("tests", TESTS), ("source", TESTS), ("config files", _CONFIG)):
        places += files if noun in nouns else ()
    if "outside" in clause.places or "source" in nouns:
        # "In production code" leaves out tests.
        is_sure = "source" not in nouns or clause.places == {"in"}
        if not is_sure:
            return None
        return Content(
            expression, _code_files(clause, scope), (*TEXTS, *DATA, *places), ignored=ignored
        )
    if "tests" in nouns and scope.folder != WORKSPACE:
        return None
    # A rule may name such files itself.
    data = tuple(each for each in DATA if not any(place.endswith(each[1:]) for place in places))
    files = places or _code_files(clause, scope)
    return Content(expression, files, (*TEXTS, *data), ignored=ignored)


def read_absolute_paths(tokens: Sequence[Token], scope: Scope) -> Content | None:
    """Read "never write `/home/` in code": paths that must not be in the text of files.

    "Never write files in `/etc`" is about the files.
    """
    if not any(token.role == "noun" and token.text.endswith("code") for token in tokens):
        return None
    clauses = read_clauses(tokens)
    if len(clauses) != 1:
        return None
    clause = clauses[0]
    is_plain = clause.has_only("names", nouns="file|source|tests", places="in")
    is_about = {"save", "write", *_WRITING_CODE}.issuperset(clause.verbs or [""])
    if not (is_plain and is_about and clause.names and clause.places):
        return None
    if not all(map(_ABSOLUTE.match, clause.names)):
        return None
    paths = [re.escape(name) + (r"(?![\w-])" * name[-1:].isalnum()) for name in clause.names]
    expression = rf"(?<![\w./~-])(?:{'|'.join(paths)})"
    return Content(expression, _code_files(clause, scope), TEXTS, ignored=("comments",))


# `/home/`, `~/data`, `C:\\Users`
_ABSOLUTE = re.compile(r"~?/[\w.-]|[A-Za-z]:[\\/]")
_DOTTED_CALL = re.compile(r"[a-z_][a-z_\d]*(?:\.[a-z_][a-z_\d]*)+")


def read_unwanted_code(tokens: Sequence[Token], scope: Scope) -> Content | None:
    """Read the code that another sentence part replaces: "use ⟦0⟧, not ⟦1⟧"."""
    clauses = read_clauses(tokens)
    return read_code("use", clauses[0], scope) if len(clauses) == 1 else None


def read_symbols(verb: str, clause: Clause, scope: Scope) -> Content | None:
    """Read "no em dashes" and "never use emojis in code"."""
    found = clause.nouns & {"emoji", "em dash"}
    places = {"file", "source", "tests", "construct", "workspace", "documentation"}
    known = "|".join(("emoji", "em dash", "message", "pull request", "issue", *places))
    if verb not in WRITING or not clause.has_only(nouns=known, places="in|to") or not found:
        return None
    # "Never use emojis" may be about answers.
    if not clause.nouns & {"em dash", *places}:
        return None
    expression = "|".join(
        sorted(r"\p{Emoji_Presentation}" if each == "emoji" else "—" for each in found)
    )
    unless = () if found == {"em dash"} or "documentation" in clause.nouns else TEXTS
    return Content(expression, _code_files(clause, scope), unless)


def _code_files(clause: Clause, scope: Scope) -> tuple[str, ...]:
    """Return the files of code in the folder of a rule."""
    known = keyword_files(clause.names)
    if scope.folder == WORKSPACE:
        return known or ("**",)
    return tuple(f"/{scope.folder}/**/{file}" for file in known) or (f"/{scope.folder}/**",)


_FUNCTIONS = frozenset("function functions method methods".split())
_DEFINING = frozenset(("add", "create", "introduce", "write"))
_INIT = r"(?m:^func\s+init\s*\(\s*\))"
"""Functions of Go that run when a package is loaded, and that nothing can call."""


def read_definitions(tokens: Sequence[Token], scope: Scope) -> tuple[Constraint, ...] | None:
    """Read "no ⟦0⟧ functions", which is about definitions; ``None`` if it is about something else.

    How other functions than Go's `init` are defined depends on the language, so that a rule about
    them is not enforced.
    """
    names = [token.word for token in tokens if token.role == "name"]
    verbs = {token.word for token in tokens if token.role == "verb"}
    is_about = any(token.text in _FUNCTIONS for token in tokens)
    if len(names) != 1 or not re.fullmatch(r"\w+\(\)", names[0]):
        return None
    if names == ["init()"] and (not verbs or verbs <= _DEFINING or (is_about and verbs == {"use"})):
        clauses = read_clauses(tokens)
        is_plain = len(clauses) == 1 and clauses[0].has_only("names", nouns="construct|it")
        if not is_plain or scope.folder != WORKSPACE:
            return ()
        return (Content(_INIT, ("*.go",)),)
    return () if is_about and verbs <= _DEFINING else None


def read_import(clause: Clause, scope: Scope) -> Content | None:
    """Read "never import from ⟦0⟧" and "never import ⟦0⟧ in tests"."""
    is_in_tests = "tests" in clause.nouns and clause.places == {"in"}
    nouns = "tests|modules|packages|it" if is_in_tests else "modules|packages|it"
    is_plain = clause.has_only("names", nouns=nouns, places="in" if is_in_tests else "from")
    if not is_plain or not all(map(_MODULE.fullmatch, clause.names)):
        return None
    if is_in_tests and scope.folder != WORKSPACE:
        return None
    names = "|".join(re.escape(name).replace(r"\*", r"[\w-]+") for name in clause.names)
    statement = (
        r"^\s*(?:import|from|export|use|using|#include|\}\s*from)\b[^\n]*?|\brequire\([^\n]*?"
    )
    expression = rf"(?m:(?:{statement})(?<![\w./@-])(?:{names})(?![\w-]))"
    files = TESTS if is_in_tests else _code_files(clause, scope)
    # The name of a module may be in quotes, but a statement in a text of several lines is data.
    return Content(expression, files, TEXTS, ignored=("comments", "blocks"))


# Names of packages: a path such as `internal/` is often imported by what is in it.
_MODULE = re.compile(r"@[\w-]+/(?:[\w-]+|\*)|[a-z][\w-]{2,}")


def read_line_length(tokens: Sequence[Token], scope: Scope) -> Content | None:
    """Read "lines must not exceed 100 characters"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or clauses[0].length is None or scope.folder != WORKSPACE:
        return None
    most, unit = clauses[0].length
    nouns = clauses[0].nouns
    # "Files must not exceed 500 lines".
    is_about_files = bool(nouns) and clauses[0].has_only("length", nouns="file|source")
    if unit == "lines" and is_about_files and most >= 50:
        return Content(rf"(?s:\A(?:[^\n]*\n){{{most}}}[^\n])", SOURCE_CODE)
    is_plain = clauses[0].has_only("length", nouns="trailer|file|source", places="in|to")
    is_about = "trailer" in clauses[0].nouns and unit == "characters" and most >= 60
    if not is_plain or not is_about or clauses[0].verbs not in (["exceed"], ["limit"]):
        return None
    return Content(rf"(?m:^[^\n]{{{most + 1},}})", SOURCE_CODE)


def read_required_text(tokens: Sequence[Token], scope: Scope) -> Content | None:
    """Read "every new ⟦0⟧ file must start with ⟦1⟧"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not (scope.binding or scope.hard):
        return None
    clause = clauses[0]
    names = [*clause.names, *clause.scopes]
    is_plain = clause.has_only("names", "scopes", nouns="file|new|source", places="with|in")
    if not is_plain or len(names) != 2 or clause.verbs not in (["start"], ["contain"]):
        return None
    is_pattern = re.fullmatch(r"\*\.[a-z]{1,5}", names[0]) is not None
    if not is_pattern or not re.search(r"\W", names[1]) or quoted_names.is_path(names[1]):
        return None
    text = re.escape(names[1]).replace(r"\ ", r"\s+")
    start = r"\A(?:#![^\n]*\n)?\s*" if clause.verbs == ["start"] else ""
    return Content(f"{start}{text}", tuple(patterns_of(names[:1], scope)), wanted=True)
