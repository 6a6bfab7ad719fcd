"""Reads what a sentence is about: verbs, names and nouns become constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import attrs

from hilum_checks import WORKSPACE, answer_forms, quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.clauses import ANYWHERE, Clause, beginnings, read_clauses
from hilum_checks.code_names import SCRIPTS, code_expression, is_code, keyword_files
from hilum_checks.commit_messages import (
    TRAILER,
    WRITING,
    read_attribution,
    read_unwanted_message,
)
from hilum_checks.label_scopes import TESTS
from hilum_checks.model import (
    READS,
    WRITES,
    Action,
    Answers,
    Commands,
    Constraint,
    Content,
    Contexts,
    Effect,
    Hosts,
    Messages,
    Paths,
    Tools,
)
from hilum_checks.secret_texts import read_secrets
from hilum_checks.sentences import Token


@attrs.frozen
class Scope:
    """What the rest of a rule says about its sentences.

    Attributes:
        folder: The folder that the rules file governs, relative to the workspace.
        hard: Whether the rule is in a section of hard constraints.
        generated: Whether the rule says that a program generates its files.
        new_files: Whether the rule calls for new files.
        binding: Whether the rule says "always" or "must".
        omitted: The parts of lists that were not understood, in order. Readers add to it.
    """

    folder: PurePosixPath
    hard: bool
    generated: bool
    new_files: bool
    binding: bool = False
    omitted: list[str] = attrs.field(factory=list, eq=False)


def read_actions(tokens: Sequence[Token], effect: Effect, scope: Scope) -> tuple[Constraint, ...]:
    """Return what a part of a sentence forbids; empty if hilum does not understand all of it."""
    definitions = _read_definitions(tokens, scope)
    if definitions is not None:
        return definitions
    constraints: list[Constraint] = []
    clauses = read_clauses(tokens)
    # "Commit or push to `main`": both verbs have the same object.
    for clause in clauses:
        for verb in clause.verbs or [""]:
            secrets = read_secrets(verb, clause)
            if secrets:
                constraints += secrets
                continue
            found = _read_action(verb, clause, effect, scope)
            # A rule is enforced as a whole or not at all; otherwise its summary would be wrong.
            if found is None:
                return ()
            constraints += _split_by_hand(found)
            # "No emojis in commit messages or code".
            if isinstance(found, Content) and "message" in clause.nouns:
                constraints.append(Messages(found.expression))
    return merge(constraints)


_FUNCTIONS = frozenset("function functions method methods".split())
_DEFINING = frozenset(("add", "create", "introduce", "write"))
_INIT = r"(?m:^func\s+init\s*\(\s*\))"
"""Functions of Go that run when a package is loaded, and that nothing can call."""


def _read_definitions(tokens: Sequence[Token], scope: Scope) -> tuple[Constraint, ...] | None:
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


# --- one verb -------------------------------------------------------------------------------------

_PATHS: dict[str, frozenset[Action]] = {
    "write": WRITES,
    "hand-edit": WRITES,
    "save": frozenset({"create", "change"}),
    "delete": v.DELETES,
    "move": v.MOVES,
    "create": v.CREATES,
    "add": v.CREATES,
    "introduce": v.CREATES,
    "read": READS,
    "open": READS,
    "access": READS | WRITES,
}
_RUNS = ("run", "start", "use", "call", "")
_BRANCH_VERBS = {"push": v.GIT_PUSH, "force-push": v.FORCE_PUSH, "commit": v.GIT_COMMIT}
_FILES = "other|file|folder|file kind|migrations|snapshots|lock files|config files|it|new|existing|generated"


def _read_action(verb: str, clause: Clause, effect: Effect, scope: Scope) -> Constraint | None:
    symbols = _read_symbols(verb, clause, scope)
    if symbols:
        return symbols
    # "Top-level dependencies" are those that the project itself names.
    if {"top-level", "packages"} <= clause.nouns:
        clause = attrs.evolve(clause, nouns=clause.nouns - {"top-level"})
    if _is_about_folders(verb, clause):
        return None
    for noun, read in _SUBJECTS.items():
        if noun in clause.nouns:
            return read(verb, clause)
    if any(TRAILER.search(name) for name in clause.names):
        return read_unwanted_message(verb, clause)
    if "bare" in clause.nouns and clause.names == ["except"]:
        clause = attrs.evolve(clause, names=["except:"])
    code = read_code(verb, clause, scope)
    if code:
        return code
    if clause.scopes:
        return _read_option(verb, clause, scope)
    if (
        verb in _BRANCH_VERBS
        and (clause.places == {"to"} or _is_commit_in_branch(verb, clause))
        and (clause.names or clause.branches or clause.kinds)
    ):
        return _read_branches(verb, clause)
    if not clause.names:
        return _read_plain(verb, clause, effect, scope)
    return _read_named(verb, clause, scope)


def _read_named(verb: str, clause: Clause, scope: Scope) -> Constraint | None:
    """Read a verb whose object has names: of commands, tools, hosts or files."""
    if verb == "call":
        return _read_run(verb, clause, scope) or read_hosts(clause)
    if verb in _RUNS:
        return _read_run(verb, clause, scope)
    if verb == "publish" and set(clause.names) <= {"npm"} and clause.places == {"to"}:
        return Commands(v.PUBLISH) if clause.nouns <= {"packages"} else None
    if verb == "skip" and clause.nouns == {"hooks"}:
        return read_command_names(clause.names, scope, used=True)
    if verb in ("commit", "push") and v.OPTIONS.issuperset(clause.names):
        return read_command_names(clause.names, scope, used=True)
    if verb in ("commit", "stage"):
        return _read_commit_of_files(clause, scope)
    if verb == "import":
        return _read_import(clause, scope)
    # "Install npm packages" installs packages.
    if verb in ("install", "add") and v.MANAGERS.issuperset(clause.names):
        is_plain = clause.has_only("names", nouns="packages|new|other", places="with")
        if not is_plain or "packages" not in clause.nouns:
            return None
        if clause.places:
            return read_command_names([f"{name} install" for name in clause.names], scope)
        return Commands(v.INSTALL, new=True)
    hosts = read_hosts(clause) if verb in ("contact", "access") else None
    return hosts or _read_paths(verb, clause, scope)


def read_sign_off(tokens: Sequence[Token]) -> Commands | None:
    """Read "commits must be signed off": every commit needs the option ``--signoff``."""
    # "Commits must be GPG-signed and include a sign-off": a key cannot be seen in a command.
    clauses = read_clauses([token for token in tokens if token.text != "gpg-signed"])
    if len(clauses) != 1:
        return None
    clause = clauses[0]
    is_named = any(name.lower().startswith("signed-off-by") for name in clause.names)
    if not is_named and "signed-off" not in clause.nouns:
        return None
    is_plain = clause.has_only(
        "names", nouns="signed-off|message|trailer|option", places="with|to|in"
    )
    clause = attrs.evolve(clause, verbs=list(dict.fromkeys(clause.verbs)))
    is_about = "commit" in clause.verbs or "message" in clause.nouns
    if not (is_plain and is_about and {"commit", "contain", "use", "add"}.issuperset(clause.verbs)):
        return None
    commit = ("git", "commit")
    return Commands((commit,), unless=((*commit, "--signoff"), (*commit, "-s")))


def read_drafts(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "always open pull requests as drafts"."""
    clauses = read_clauses(tokens)
    is_order = bool(tokens) and tokens[0].role == "verb"
    if len(clauses) != 1 or not (scope.binding or scope.hard or is_order):
        return None
    clause = clauses[0]
    is_plain = clause.has_only(nouns="pull request|drafts|new", places="in")
    is_opened = bool(clause.verbs) and {"open", "create", "submit"}.issuperset(clause.verbs)
    if not (is_plain and is_opened and "drafts" in clause.nouns):
        return None
    opening = (*v.OPEN_PULL_REQUEST, *v.OPEN_MERGE_REQUEST)
    drafts = [(*words, "--draft") for words in opening]
    # The option `-d` of `glab` means a description.
    drafts += [(*words, "-d") for words in v.OPEN_PULL_REQUEST]
    return Commands(opening, unless=tuple(drafts))


def read_base(tokens: Sequence[Token]) -> Commands | None:
    """Read "pull requests must target ⟦0⟧": no pull request may name another base."""
    names = [token.word for token in tokens if token.role in ("name", "branch")]
    texts = {token.text for token in tokens if token.role not in ("name", "branch", "join")}
    nouns = {token.word for token in tokens if token.role == "noun"}
    is_about = "pull request" in nouns and bool(texts & {"target", "against", "into"})
    if not is_about or len(names) != 1 or not texts <= _BASE_WORDS:
        return None
    if not _BRANCH_NAME.fullmatch(names[0]):
        return None
    patterns = tuple((*v.PULL_REQUEST[0], option) for option in ("--base", "-B"))
    return Commands(patterns, unless=tuple((*words, names[0]) for words in patterns))


_BASE_WORDS = frozenset(
    """
    must should target against into to all open create submit feature pr prs pull request pull requests
    branch always the new topic
    """.split()
) | {"pull request", "pull requests"}


def read_approval(tokens: Sequence[Token]) -> Commands | None:
    """Read "never approve pull requests"."""
    is_plain = {token.word for token in tokens} <= {"pull request", "it", "own", "filler"}
    is_about = any(token.word == "pull request" for token in tokens)
    return Commands(v.APPROVE) if is_plain and is_about else None


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


_SWITCH = ("git", "switch", "-c")
_NEW_BRANCHES = Commands(v.BRANCH, new_branches=True)


def read_branch_names(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "branch names must start with ⟦0⟧": new branches must have one of the prefixes."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not (scope.binding or scope.hard):
        return None
    clause = clauses[0]
    is_about = "branch name" in clause.nouns or {"branch", "prefix"} <= clause.nouns
    is_start = "start" in clause.verbs or "prefix" in clause.nouns
    is_plain = clause.has_only("names", nouns="branch|branch name|prefix|new", places="with")
    if not (is_about and is_start and is_plain and clause.names):
        return None
    prefixes = [re.sub(r"<[^<>]*>", "*", name).rstrip("*") for name in clause.names]
    if not all(re.fullmatch(r"[\w*.-]+[/-]", prefix) for prefix in prefixes):
        return None
    allowed = tuple((*_SWITCH, f"{prefix}*") for prefix in prefixes)
    return attrs.evolve(_NEW_BRANCHES, unless=allowed)


_BRANCH_NAME = re.compile(r"[\w-]+(?:[./][\w-]+)*", re.ASCII)
_BRANCH_FOLDER = re.compile(
    r"(?:release|releases|feature|feat|fix|bugfix|hotfix|support|env|chore|docs)/"
)


_SHARED_BRANCHES = ("main", "master", "develop", "dev", "trunk", "release/*")


def _read_branches(verb: str, clause: Clause) -> Commands | None:
    names = [*clause.names, *clause.branches]
    if verb == "push" and names == ["upstream"]:
        return Commands(tuple((*words, "upstream") for words in v.GIT_PUSH))
    is_sure = all(map(_BRANCH_NAME.fullmatch, clause.names))
    # `OWNER/NAME` is a repository.
    are_folders = all("/" not in name or _BRANCH_FOLDER.match(name) for name in names)
    is_sure = is_sure and (are_folders or "branch" in clause.nouns)
    # "Never force-push to shared branches": at least to these.
    if clause.kinds == ["shared"] and "branch" in clause.nouns:
        names += _SHARED_BRANCHES
        clause = attrs.evolve(clause, kinds=[])
    known = "branch|changes|file|remote|it"
    if not is_sure or not clause.has_only("names", "branches", nouns=known, places="to|in"):
        return None
    return Commands(_BRANCH_VERBS[verb], branches=tuple(dict.fromkeys(names)))


def _is_commit_in_branch(verb: str, clause: Clause) -> bool:
    """Return whether a clause says "commit in `main`", and does not name a folder."""
    return verb == "commit" and clause.places == {"in"} and not clause.names


# `*.key`, `.DS_Store`, `.venv/`.
_LISTED_FILE = re.compile(r"\*?\.[\w-]+/?")


def _read_commit_of_files(clause: Clause, scope: Scope) -> Commands | None:
    """Read "never commit ⟦0⟧": files that must not be added to a commit by their names."""
    known = f"{_FILES}|changes|artifacts|data|documentation"
    is_plain = clause.has_only("names", nouns=known, places="in|to|from")
    is_named = bool(clause.nouns & {"file", "folder"} or clause.places)
    if not is_plain or scope.folder != WORKSPACE:
        return None
    others = [name for name in clause.names if not quoted_names.is_path(name, named=is_named)]
    # Next to `.env`, `.session` and `*.key` are files too. Alone, `.only` may be code.
    is_list = len(others) < len(clause.names) or any(name.endswith("/") for name in clause.names)
    if others and not (is_list and all(map(_LISTED_FILE.fullmatch, others))):
        return None
    words: list[str] = []
    for pattern in patterns_of(clause.names, scope):
        path = pattern.removesuffix("/**").lstrip("/")
        starts = ("", "./") if pattern.startswith("/") else ("", "*/")
        words += [f"{start}{path}{end}" for start in starts for end in ("", "/", "/*")]
    return Commands(tuple((*stage, "*", word) for stage in v.STAGE[:2] for word in words))


def _read_run(verb: str, clause: Clause, scope: Scope) -> Constraint | None:
    # "Do not `git commit` anything".
    are_long = not verb and all(" " in name for name in clause.names)
    objects = "|file|changes" if are_long else ""
    if not clause.has_only(
        "names", nouns=f"tool|commands|it|dev server|destructive|risky|git|bare{objects}"
    ):
        return None
    # In "destructive commands (`a`, `b`)", the names say which.
    if clause.nouns & {"destructive", "risky"}:
        clause = attrs.evolve(clause, nouns=clause.nouns - {"destructive", "risky", "git"})
    used = verb in ("use", "call")
    # "Never run `pytest` directly" means that something else may run it.
    is_short = any(len(name.split()) < 2 and name not in v.MANAGERS for name in clause.names)
    if "bare" in clause.nouns or (clause.by_hand and is_short):
        return read_unlaunched(clause.names, scope)
    if "tool" in clause.nouns:
        return read_tools(clause.names)
    # Try tools first, because "use `web_fetch`" cannot refer to a program.
    tools = read_tools(clause.names, known=True) if used else None
    return tools or read_command_names(clause.names, scope, used=used or not verb, many=not verb)


def read_unlaunched(names: list[str], scope: Scope) -> Commands | None:
    """Return programs that must not be run directly, but may be run by others, as by `uv run`."""
    if any(name in ("uv", "uvx", "make", "docker") for name in names):
        return None
    found = read_command_names(names, scope)
    if found is None or not all(name.split()[0] in v.PROGRAMS for name in names):
        return None
    own = {pattern[0] for pattern in found.patterns}
    launchers = tuple(words for words in v.LAUNCHERS if words[0] not in own)
    return attrs.evolve(found, unless=launchers)


def read_commands(tokens: Sequence[Token], scope: Scope, *, used: bool) -> Commands | None:
    """Return the commands that a part of a sentence names."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not clauses[0].has_only("names", nouns="tool|commands|managing"):
        return None
    return read_command_names(clauses[0].names, scope, used=used)


def read_command_names(
    names: list[str], scope: Scope, *, used: bool = False, many: bool = False
) -> Commands | None:
    """Return the commands with the given names; ``None`` if a name may mean something else.

    Args:
        names: The names.
        scope: The scope.
        used: Whether the verb is "use", which may also refer to things other than commands.
        many: Whether a program name alone is not enough, because no verb says that it runs.
    """
    found: list[tuple[str, ...]] = []
    # In "`npm` or `node`", the first name shows that the second one is a program too.
    are_programs = any(name in v.MANAGERS for name in names)
    for name in names:
        if name in v.OPTIONS and used:
            found.append(("*", name))
            if name == "--no-verify":
                # ``-n`` means ``--no-verify`` for ``git commit`` but a dry run for ``git push``.
                found.append(("git", "commit", "-n"))
            continue
        words = quoted_names.command_words(
            name, used=used and not (are_programs and name in v.PROGRAMS)
        )
        is_alone = len(words) < 2 and name not in v.MANAGERS
        if not words or (many and is_alone):
            return None
        found += quoted_names.command_spellings(words)
    return Commands(tuple(dict.fromkeys(found)), str(scope.folder)) if found else None


def read_other_managers(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "use only ⟦0⟧" and "always use ⟦0⟧": a package manager, which forbids the others."""
    clauses = read_clauses([token for token in tokens if token.text != "supported"])
    if len(clauses) != 1 or not clauses[0].has_only(
        "names", nouns="it|workspace|commands|tool|packages|managing"
    ):
        return None
    clause = clauses[0]
    for managers in v.PACKAGE_MANAGERS:
        is_one = len(clause.names) == 1 and clause.names[0] in managers
        if is_one and {"use", "run"}.issuperset(clause.verbs):
            others = managers - {"bun", "conda", *clause.names}
            return read_command_names(sorted(others), scope)
    return None


def read_manager(tokens: Sequence[Token]) -> Commands | None:
    """Read "use ⟦0⟧ for package management": the others must not manage packages."""
    names = [token.word for token in tokens if token.role == "name"]
    texts = {
        word
        for token in tokens
        if token.role not in ("name", "join")
        for word in token.text.split()
    }
    if not names or not texts & _PACKAGE_WORDS or not texts <= _MANAGING_WORDS:
        return None
    # "`pnpm install` - install packages" only describes a command.
    is_order = bool(texts & {"use", "uses", "using", "for", "manager", "使用", "包管理器"})
    if not is_order or " " in names[0]:
        return None
    # "`pnpm` (`pnpm install`)" names its commands, too.
    program = names[0]
    managers = next((each for each in v.PACKAGE_MANAGERS if program in each), frozenset())
    if not managers or any(name.split()[0] != program for name in names):
        return None
    others = sorted(managers - {program})
    found = [words for name in others for words in v.MANAGING.get(name, ())]
    # `uv pip install` is no `pip install`.
    unless = (("uv", "pip"),) if program == "uv" else ()
    return Commands(tuple(found), unless=unless) if found else None


_PACKAGE_WORDS = frozenset(
    "package packages dependency dependencies 包 依赖 依赖包 包管理 包管理器".split()
)
_MANAGING_WORDS = _PACKAGE_WORDS | frozenset(
    """
    use uses using for all management manager work operations
    commands the as this project workspace repo repository and always mandatory required installs installation
    install javascript typescript python node js ts in any tooling with tasks it is we our adding
    使用 管理 安装 所有 必须 统一 作为 项目
    """.split()
)


def read_tools(names: list[str], *, known: bool = False) -> Tools | None:
    """Read tool names; with ``known``, only names that are not commands."""
    found: list[str] = []
    for name in names:
        tools = v.TOOLS.get(name.lower())
        is_sure = not known or "_" in name or name in ("WebFetch", "WebSearch", "MultiEdit")
        if tools and is_sure:
            found += tools
        elif known or not re.fullmatch(r"[A-Za-z][\w*-]*", name):
            return None
        else:
            found.append(name)
    return Tools(tuple(dict.fromkeys(found))) if found else None


def read_hosts(clause: Clause) -> Hosts | None:
    """Read hosts."""
    hosts = [v.read_host(name) for name in clause.names]
    is_plain = clause.has_only("names", nouns="host|data|file", places=ANYWHERE)
    return Hosts(tuple(hosts)) if is_plain and all(hosts) else None


# --- code -----------------------------------------------------------------------------------------

_WRITING_CODE = ("use", "commit", "call", "add", "introduce", "create", "contain", "")
# Texts about code may name what code must not contain.
TEXTS = ("*.md", "*.mdx", "*.mdc", "*.txt", "*.rst", "*.adoc", ".cursorrules")
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
    if _BRANCHES.intersection(clause.scopes):
        return None
    expression = "|".join(map(code_expression, clause.names))
    places = patterns_of(clause.scopes, scope)
    for noun, files in (("tests", TESTS), ("source", TESTS), ("config files", _CONFIG)):
        places += files if noun in nouns else ()
    if "outside" in clause.places or "source" in nouns:
        # "In production code" leaves out tests.
        is_sure = "source" not in nouns or clause.places == {"in"}
        return (
            Content(expression, _code_files(clause, scope), (*TEXTS, *places)) if is_sure else None
        )
    if "tests" in nouns and scope.folder != WORKSPACE:
        return None
    return Content(expression, places or _code_files(clause, scope), TEXTS)


_DOTTED_CALL = re.compile(r"[a-z_][a-z_\d]*(?:\.[a-z_][a-z_\d]*)+")


def _read_symbols(verb: str, clause: Clause, scope: Scope) -> Content | None:
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


def _read_option(verb: str, clause: Clause, scope: Scope) -> Commands | None:
    """Read "never use `--no-build` with `dotnet test`"."""
    is_plain = clause.has_only("names", "scopes", nouns="commands|option", places="with|in")
    if verb not in (*_RUNS, "pass", "add") or not is_plain:
        return None
    # "Never run ⟦0⟧ with ⟦1⟧" names the command first.
    parts = [clause.names, clause.scopes]
    options, commands = parts if clause.names[0].startswith("-") else parts[::-1]
    return _with_options(options, commands)


def _with_options(options: list[str], commands: list[str]) -> Commands | None:
    """Return commands with each of the given options."""
    words = [quoted_names.command_words(command) for command in commands]
    if not all(words) or not all(map(_LONG_OPTION.match, options)):
        return None
    found = [(*each, option.split()[0]) for each in words for option in options]
    return Commands(
        tuple(spelling for each in found for spelling in quoted_names.command_spellings(each))
    )


_LONG_OPTION = re.compile(r"--?[a-z][\w-]*(?:[ =][\w.-]+)?$")


def read_wanted_option(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read a demand of an option, whatever it is for."""
    found = (_read_wanted_option(part, scope) for part in beginnings(tokens))
    return next(filter(None, found), None)


def _read_wanted_option(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "always pass ⟦0⟧ to ⟦1⟧" and "always run ⟦0⟧ with ⟦1⟧": commands that need an option."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not clauses[0].verbs or not (scope.binding or scope.hard):
        return None
    clause = clauses[0]
    is_plain = clause.has_only(
        "names", "scopes", nouns="commands|option|file|new", places="with|to"
    )
    if (
        not is_plain
        or not clause.scopes
        or not {"pass", "use", "run", "add"}.issuperset(clause.verbs)
    ):
        return None
    names = [clause.names, clause.scopes]
    options, commands = names if clause.names[0].startswith("-") else names[::-1]
    found = _with_options(options, commands)
    plain = read_command_names(commands, scope)
    return attrs.evolve(plain, unless=found.patterns) if found and plain else None


def _read_import(clause: Clause, scope: Scope) -> Content | None:
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
    return Content(expression, TESTS if is_in_tests else _code_files(clause, scope), TEXTS)


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
        return Content(rf"(?s:\A(?:[^\n]*\n){{{most}}}[^\n])", _SOURCES)
    is_plain = clauses[0].has_only("length", nouns="trailer|file|source", places="in|to")
    is_about = "trailer" in clauses[0].nouns and unit == "characters" and most >= 60
    if not is_plain or not is_about or clauses[0].verbs not in (["exceed"], ["limit"]):
        return None
    return Content(rf"(?m:^[^\n]{{{most + 1},}})", _SOURCES)


_SOURCES = (*SCRIPTS, "*.py", "*.rs", "*.go", "*.java", "*.kt", "*.cs", "*.rb", "*.php", "*.swift")


def read_unwanted_code(tokens: Sequence[Token], scope: Scope) -> Content | None:
    """Read the code that another sentence part replaces: "use ⟦0⟧, not ⟦1⟧"."""
    clauses = read_clauses(tokens)
    return read_code("use", clauses[0], scope) if len(clauses) == 1 else None


# --- files ----------------------------------------------------------------------------------------


def _read_paths(verb: str, clause: Clause, scope: Scope) -> Paths | None:
    actions = _PATHS.get(verb, frozenset())
    # "Do not edit files in `main`" means the branch, unless it is called a folder.
    is_branch = bool(clause.places and _BRANCHES.intersection(clause.names))
    if is_branch and "folder" not in clause.nouns:
        return None
    if "outside" in clause.places:
        if actions == v.CREATES:
            others = read_other_folders(clause, scope)
            return attrs.evolve(others, actions=actions) if others else None
        return read_other_folders(clause, scope) if actions >= WRITES else None
    known = f"{_FILES}|modules|artifacts" if verb in _HANDLING else _FILES
    if not clause.has_only("names", "exceptions", nouns=known, places=ANYWHERE):
        return None
    if _is_about_contents(verb, clause):
        return None
    actions = _narrow(actions, clause, scope)
    by_hand = clause.by_hand or verb == "hand-edit"
    # "Never access `x` directly" is about code.
    if not actions or (by_hand and "read" in actions):
        return None
    is_named = bool(clause.nouns & {"file", "folder"} or "in" in clause.places)
    names = [*clause.names, *clause.exceptions]
    if not all(quoted_names.is_path(name, named=is_named) for name in names):
        return None
    is_generated = scope.generated or "generated" in clause.nouns
    exceptions = patterns_of(clause.exceptions, scope)
    # To rename a folder is not to rename the files in it.
    if verb == "move" and "file" not in clause.nouns and not clause.places:
        folders = [name for name in clause.names if not re.search(r"\w\.\w+$", name)]
        exceptions += tuple(f"{each}/**" for each in patterns_of(folders, scope))
    return Paths(
        patterns_of(clause.names, scope),
        actions,
        exceptions,
        by_hand=actions <= WRITES and (by_hand or is_generated),
    )


_HANDLING = ("write", "hand-edit", "delete", "move")
# Names that are folders only if they end with a slash, or if the sentence says so.
_BRANCHES = frozenset("main master develop dev trunk production staging release".split())


def _is_about_folders(verb: str, clause: Clause) -> bool:
    """Return whether a sentence is about folders as such, and not about the files in them.

    "Do not create folders in `a`" allows new files in `a`.
    """
    is_handled = verb in ("create", "add", "introduce", "delete", "move")
    is_any = bool(clause.places) or not clause.names
    return clause.are_folders and "file" not in clause.nouns and is_handled and is_any


def _is_about_contents(verb: str, clause: Clause) -> bool:
    """Return whether a sentence is about what is in a file, and not about the file."""
    # "Never move files to `a`" is not about the files in `a`.
    if verb == "move" and "to" in clause.places:
        return True
    # "Add tests to `a`" is not about the file `a`.
    if clause.places & {"to", "from", "with"} and not clause.nouns & {"file", "folder"}:
        return True
    if verb == "save" and not clause.places:
        return True
    # "Add code to `a.py`" changes the file; only a folder gets a new file.
    are_folders = all(name.endswith("/") for name in clause.names)
    return verb in ("create", "add") and "to" in clause.places and not are_folders


def _narrow(actions: frozenset[Action], clause: Clause, scope: Scope) -> frozenset[Action]:
    """Return the actions that a sentence means if it is about new or existing files only."""
    if "new" in clause.nouns:
        actions = actions & v.CREATES
    if "existing" in clause.nouns or (actions > v.CREATES and scope.new_files):
        actions = actions - v.CREATES
    return actions


def patterns_of(names: list[str], scope: Scope) -> tuple[str, ...]:
    """Return the patterns for paths in the folder of a rule."""
    found: list[str] = []
    for name in names:
        found += quoted_names.path_patterns(name, scope.folder)
    return tuple(found)


def read_other_folders(clause: Clause, scope: Scope) -> Paths | None:
    """Read "files outside ⟦0⟧": everything in the workspace but the given folders."""
    is_plain = clause.has_only("names", nouns="file|folder", places=ANYWHERE)
    is_plain = is_plain and ("file" in clause.nouns or not clause.are_folders)
    if not is_plain or not all(quoted_names.is_path(name, named=True) for name in clause.names):
        return None
    everything = "**" if scope.folder == WORKSPACE else f"/{scope.folder}/**"
    return Paths((everything,), WRITES, patterns_of(clause.names, scope), by_hand=True)


def read_project_only(tokens: Sequence[Token], *, only: bool = False) -> Paths | None:
    """Read "only modify files inside this repository" and "all operations must stay within it"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or "workspace" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    nouns = "file|folder|workspace|it|commands|changes|new|existing"
    is_plain = clause.has_only(nouns=nouns, places="in") and clause.places == {"in"}
    is_limit = only or clause.verbs == ["stay"]
    verbs = set(clause.verbs) - {"stay"}
    is_writing = verbs <= {"write", "create", "add", "save", "delete", "read"}
    is_about = bool(verbs) or bool(clause.nouns & {"commands", "file", "changes"})
    if not (is_plain and is_limit and is_writing and is_about and verbs != {"read"}):
        return None
    return Paths((), WRITES, outside=True)


def read_launched(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "use `uv run` for all Python commands": Python must be started by a launcher."""
    names = [token.word for token in tokens if token.role == "name"]
    texts = {token.text for token in tokens if token.role not in ("name", "join")}
    if len(names) not in (1, 2) or "python" not in texts or not texts <= _LAUNCHING_WORDS:
        return None
    words = tuple(names[0].removesuffix(" python").split())
    is_launcher = words in v.LAUNCHERS[:8] and len(words) == 2
    is_sure = scope.binding or scope.hard or bool(texts & {"commands", "command", "命令"})
    if not is_launcher or not is_sure or names[1:] not in ([], ["python"]):
        return None
    found = read_command_names(["python", "python3"], scope)
    return attrs.evolve(found, unless=v.LAUNCHERS) if found else None


_LAUNCHING_WORDS = frozenset(
    """
    use run execute through via with for to in python commands command scripts script code all every
    always must prefix running executing everything files 使用 运行 执行 命令 脚本 必须 所有
    """.split()
)


def read_other_paths(tokens: Sequence[Token], scope: Scope) -> Paths | None:
    """Read "only edit files in ⟦0⟧", which forbids to write everywhere else."""
    clauses = read_clauses(tokens)
    # Elsewhere, the sentence may be about one task: "Only edit `en.json`" in a section on languages.
    if not scope.hard or len(clauses) != 1 or not clauses[0].names:
        return None
    clause = clauses[0]
    is_writing = bool(clause.verbs) and set(clause.verbs) <= {"write", "create", "add", "save"}
    return read_other_folders(clause, scope) if is_writing and clause.places == {"in"} else None


def _split_by_hand(constraint: Constraint) -> list[Constraint]:
    """Separate the paths that programs write, for which only manual editing is forbidden."""
    if not isinstance(constraint, Paths) or constraint.by_hand:
        return [constraint]
    if "read" in constraint.actions or not constraint.actions & WRITES:
        return [constraint]
    generated = tuple(
        pattern for pattern in constraint.patterns if quoted_names.is_generated(pattern)
    )
    if not generated:
        return [constraint]
    rest = tuple(pattern for pattern in constraint.patterns if pattern not in generated)
    split: list[Constraint] = [attrs.evolve(constraint, patterns=rest)] if rest else []
    return [*split, attrs.evolve(constraint, patterns=generated, by_hand=True)]


def merge(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Merge constraints that differ only in their commands, or only in their actions."""
    merged: list[Constraint] = []
    for constraint in constraints:
        last = merged[-1] if merged else None
        if isinstance(constraint, Commands) and isinstance(last, Commands):
            patterns = (*last.patterns, *constraint.patterns)
            both = attrs.evolve(last, patterns=tuple(dict.fromkeys(patterns)))
            if attrs.evolve(constraint, patterns=both.patterns) == both:
                merged[-1] = both
                continue
        if isinstance(constraint, Paths) and isinstance(last, Paths):
            both_paths = attrs.evolve(last, actions=last.actions | constraint.actions)
            if attrs.evolve(constraint, actions=both_paths.actions) == both_paths:
                merged[-1] = both_paths
                continue
        merged.append(constraint)
    return tuple(merged)


# --- actions without a named object ---------------------------------------------------------------


@attrs.frozen
class Plain:
    """An action in plain words.

    Attributes:
        verbs: The verbs, one of which the sentence must have.
        needed: Nouns of which the sentence must have one; empty if it needs none.
        others: Other nouns that it may have.
        constraint: The constraint.
        sure: Whether the words mean an action of the agent under every heading. "Do not send
            emails" may be about the program that the agent writes.
    """

    verbs: str
    needed: str
    others: str
    constraint: Constraint
    sure: bool = True

    def is_meant(self, verb: str, clause: Clause) -> bool:
        """Return whether a sentence with this verb and object means the action."""
        if verb not in self.verbs.split("|"):
            return False
        if self.needed and not clause.nouns & set(self.needed.split("|")):
            return False
        place = "to" if verb in ("commit", "push", "force-push", "publish") else "with"
        return clause.has_only(nouns=f"{self.needed}|{self.others}", places=place)


_DOCUMENTS = ("*.md", "*.mdx", "*.rst", "*.adoc")
_CI_FILES = (".github/workflows/**", ".gitlab-ci.yml", ".circleci/**")
_DELETE_FILES = Paths(("**",), frozenset({"delete"}))
_WILDCARD_IMPORTS = Content(
    r"(?m:^\s*from\s+\S+\s+import\s+\*|^\s*import\s+[\w.]+\.\*;)",
    ("*.py", "*.java", "*.kt", "*.scala"),
)
_RELATIVE_IMPORTS = Content(
    r"(?m:^\s*from\s+\.+[\w.]*\s+import\b|\bfrom\s+['\"]\.{1,2}/|\brequire\(['\"]\.{1,2}/)",
    (*SCRIPTS, "*.py"),
)
_BARE_EXCEPT = Content(code_expression("except:"), ("*.py",))
_CONFIG_READS = "git config --get|git config --list|git config -l|git config get|git config list|git config --get-all"
_SNAPSHOTS = Paths(("*.snap", "**/__snapshots__/**"), WRITES, by_hand=True)
_LOCK_FILES = Paths(tuple(sorted(v.LOCKS)), WRITES, by_hand=True)
_DEFAULT_EXPORTS = Content(r"(?m:^\s*export\s+default\b)", SCRIPTS)
_INLINE_STYLES = Content(r"\bstyle=(?:\{\{|\")", (*SCRIPTS, "*.html", "*.astro"))
_CODE = "changes|file|it|branch"
PLAIN_ACTIONS = (
    # "Never commit it" is about one thing, whichever it is.
    Plain("commit", "", "changes|file|branch|git|workspace", Commands(v.GIT_COMMIT)),
    Plain("push", "", "changes|file|branch|remote|workspace", Commands(v.GIT_PUSH)),
    Plain("force-push", "", f"{_CODE}|remote", Commands(v.FORCE_PUSH)),
    Plain("amend", "", "existing", Commands(v.AMEND)),
    Plain("create|", "branch", "new|git", _NEW_BRANCHES),
    Plain("comment", "", "issue|pull request|remote", Commands(v.COMMENT)),
    Plain("run", "git", "commands", Commands((("git",),))),
    Plain("create|use|", "worktree", "new|git", Commands(v.WORKTREE)),
    Plain("run|start|use", "dev server", "", Commands(v.DEV_SERVER)),
    Plain("write|create", "ci", "file", Paths(_CI_FILES, WRITES)),
    Plain("open|submit|create|add", "issue", "new|remote", Commands(v.ISSUE)),
    Plain(
        "open|submit|create",
        "issue",
        "new|remote|pull request",
        Commands((*v.ISSUE, *v.PULL_REQUEST)),
    ),
    Plain("close", "issue", "remote", Commands(v.CLOSE_ISSUE)),
    Plain("close", "pull request", "remote", Commands(v.CLOSE_PULL_REQUEST)),
    Plain("delete", "branch", "remote|git", Commands(v.DELETE_BRANCH)),
    Plain("write", "history", "git", Commands(v.REWRITE_HISTORY)),
    Plain("clone", "", "workspace", Commands(v.CLONE)),
    Plain("use|add|create|introduce|", "wildcard imports", "", _WILDCARD_IMPORTS),
    Plain("use|add|create|introduce|", "default exports", "", _DEFAULT_EXPORTS),
    Plain("write|hand-edit|save", "lock files", "generated|file", _LOCK_FILES),
    Plain("write|hand-edit", "snapshots", "generated|file|existing", _SNAPSHOTS),
    Plain("use|add|create|introduce|", "relative imports", "", _RELATIVE_IMPORTS),
    Plain("use|add|create|introduce|", "inline styles", "", _INLINE_STYLES),
    Plain("stash", "", f"{_CODE}|workspace", Commands(v.STASH)),
    Plain("reset", "", f"{_CODE}|workspace", Commands(v.RESET)),
    Plain("create|save|add|", "documentation", "new|file", Paths(_DOCUMENTS, v.CREATES)),
    Plain("create|save|add", "tests", "new|file|it", Paths(TESTS, v.CREATES), sure=False),
    Plain("run|start", "app", "it", Commands((*v.DEV_SERVER, *v.RUN_APP))),
    Plain("stage", "", "changes|file", Commands(v.STAGE)),
    Plain("rebase", "", "branch", Commands(v.REBASE)),
    Plain("deploy", "", "changes|file|it|artifacts|workspace", Commands(v.DEPLOY)),
    Plain("run", "tests", "file", Commands(v.TESTS), sure=False),
    Plain("run|", "run migrations", "commands", Commands(v.MIGRATE)),
    Plain("upgrade", "packages", "workspace|existing|other", Commands(v.UPGRADE)),
    Plain("install", "globally", "packages|other|it", Commands(v.GLOBAL_INSTALL)),
    Plain("approve-review", "pull request", "it", Commands(v.APPROVE)),
    Plain(
        "write|hand-edit",
        "git config",
        "it",
        Commands(v.GIT_CONFIG, unless=v.phrases(_CONFIG_READS)),
    ),
    Plain("use|add|introduce|create|", "bare except", "file|construct", _BARE_EXCEPT),
    Plain("open|submit|create|commit|", "pull request", "new", Commands(v.PULL_REQUEST)),
    Plain("install", "packages|modules", "new|other", Commands(v.INSTALL, new=True)),
    Plain("add|introduce|", "packages", "new|other|workspace", Commands(v.INSTALL, new=True)),
    Plain("write", "packages", "workspace", Commands(v.INSTALL, new=True), sure=False),
    Plain("publish", "", "packages|registry|artifacts", Commands(v.PUBLISH)),
    Plain("release", "", "packages|artifacts", Commands(v.PUBLISH)),
    Plain("github-release", "", "new|artifacts", Commands(v.GITHUB_RELEASE)),
    Plain("tag", "", f"{_CODE}|artifacts", Commands(v.TAG)),
    Plain("push-tag", "", f"{_CODE}|artifacts", Commands(v.PUSH_TAGS)),
    Plain("merge", "", "pull request|it|changes", Commands(v.MERGE)),
    Plain("skip", "hooks", "git", Commands(v.SKIP_HOOKS, skips_hooks=True)),
    Plain("use|run|", "sudo", "commands", Commands(v.AS_ROOT)),
    Plain("run|use|", "destructive", "commands", Commands(v.DESTRUCTIVE)),
    Plain("run|use|", "destructive", "commands|git", Commands(v.DESTRUCTIVE_GIT)),
    Plain("delete", "file|folder", "existing", _DELETE_FILES, sure=False),
    Plain("access|use|contact|call|create|", "network", "", Hosts(("*",)), sure=False),
    Plain("run|use", "shell", "commands", Tools(risk="execute"), sure=False),
    Plain("send", "emails", "", Tools(v.EMAIL_TOOLS), sure=False),
    Plain("post|publish|send|", "tweets", "", Tools(v.TWEET_TOOLS), sure=False),
)
# Folders in which frameworks keep the migrations of a database.
_MIGRATIONS = ("**/migrations/**", "**/migrate/**", "**/alembic/versions/**", "**/db/changelog/**")
_OUTSIDE: dict[str, frozenset[Action]] = {**_PATHS, "delete": v.DELETES}


def _read_plain(verb: str, clause: Clause, effect: Effect, scope: Scope) -> Constraint | None:
    if "outside" in clause.places:
        return _read_outside(verb, clause)
    if {"existing", "migrations"} <= clause.nouns and clause.has_only(
        nouns="existing|migrations|file"
    ):
        actions = _PATHS.get(verb, frozenset()) - v.CREATES
        return Paths(_MIGRATIONS, actions) if actions and "read" not in actions else None
    for plain in PLAIN_ACTIONS:
        if plain.is_meant(verb, clause):
            return plain.constraint if plain.sure or scope.hard or effect == "ask" else None
    return None


def _read_outside(verb: str, clause: Clause) -> Paths | None:
    """Read "files outside the workspace"."""
    nouns = "file|folder|it|workspace|existing"
    is_plain = clause.has_only(nouns=nouns, places="outside|in")
    if not is_plain or "workspace" not in clause.nouns or verb not in _OUTSIDE:
        return None
    return Paths((), _OUTSIDE[verb], outside=True)


# --- answers and sessions -------------------------------------------------------------------------


def read_main_context(tokens: Sequence[Token]) -> Contexts | None:
    """Read "only load ⟦0⟧ in the main session"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or "session" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    if {*clause.kinds, *clause.branches} != {"main"} or clause.verbs != ["load"]:
        return None
    return _contexts(clause, ("shared", "headless"))


def _read_unwanted_context(verb: str, clause: Clause) -> Contexts | None:
    kinds = tuple(dict.fromkeys([*clause.kinds, *clause.branches]))
    known = ("main", "shared", "headless")
    if verb not in ("load", "read", "use", "contain") or not kinds:
        return None
    return _contexts(clause, kinds) if set(kinds) <= set(known) else None


def _contexts(clause: Clause, kinds: tuple[str, ...]) -> Contexts | None:
    names = clause.names
    if not names and "memory" in clause.nouns:
        names = ["memory"]
    known = "session|memory|file"
    is_plain = clause.has_only("names", "kinds", "branches", nouns=known, places=ANYWHERE)
    if not names or not is_plain:
        return None
    if not all(name == "memory" or quoted_names.is_path(name, named=True) for name in names):
        return None
    return Contexts(tuple(names), kinds)


_ANSWER_WORDS = "answer|text|it"


def _read_unwanted_answer(verb: str, clause: Clause) -> Answers | None:
    """Read "never use emojis in your answers"."""
    if clause.has_only("length", nouns=_ANSWER_WORDS, places=ANYWHERE):
        return _read_length(clause) if verb == "exceed" else None
    nouns = clause.nouns - set(_ANSWER_WORDS.split("|"))
    if not clause.has_only("names", nouns="|".join(clause.nouns), places=ANYWHERE):
        return None
    if len(clause.names) + len(nouns) != 1:
        return None
    if nouns == {"emoji"} and verb in ("start", "end", "contain", *WRITING):
        return answer_forms.WITH_EMOJI
    if nouns == {"question"} and verb == "end":
        return answer_forms.ENDS_WITH_QUESTION
    return _read_phrase("contain" if verb == "use" else verb, clause)


def read_wanted_answer(tokens: Sequence[Token]) -> Answers | None:
    """Read "answers must end with ⟦0⟧" and "keep answers under 200 words"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or len(clauses[0].verbs) != 1 or "answer" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    if clause.verbs == ["limit"]:
        is_plain = clause.has_only("length", nouns=_ANSWER_WORDS, places=ANYWHERE)
        return _read_length(clause) if is_plain else None
    is_plain = clause.has_only("names", nouns=_ANSWER_WORDS, places=ANYWHERE)
    return _read_phrase(clause.verbs[0], clause, wanted=True) if is_plain else None


def _read_length(clause: Clause) -> Answers | None:
    return answer_forms.limit_length(*clause.length) if clause.length else None


def _read_phrase(verb: str, clause: Clause, *, wanted: bool = False) -> Answers | None:
    if len(clause.names) != 1 or verb not in ("start", "end", "contain"):
        return None
    return answer_forms.with_phrase(verb, clause.names[0], wanted=wanted)


# Nouns that decide what a sentence is about, whatever else it names.
_SUBJECTS: dict[str, Callable[[str, Clause], Constraint | None]] = {
    "answer": _read_unwanted_answer,
    "session": _read_unwanted_context,
    "co-author": read_attribution,
    "ai": read_attribution,
    "message": read_unwanted_message,
    "subject": read_unwanted_message,
}
