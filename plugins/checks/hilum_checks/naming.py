"""Read how branches, commits, pull requests and files must be named: "branches: ⟦0⟧ or ⟦1⟧"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilum_checks import vocabulary as v
from hilum_checks.clauses import LIMITS
from hilum_checks.code_names import SCRIPTS
from hilum_checks.model import Commands, Constraint, MessageKind, Messages, Names
from hilum_checks.tokens import Token

CONVENTIONAL = r"^\w+(?:\([^)]*\))?!?: \S"
_TYPES = frozenset(
    "feat fix docs doc style refactor perf test tests build ci chore revert feature bugfix hotfix"
    " type prefix 前缀 类型 타입 タイプ".split()
)
# Words around the names of a naming rule that do not change it.
_WORDS = frozenset(
    """
    must should follow use used uses be is are name named names naming pattern format convention
    conventions prefix prefixed prefixes with the a an for per each every all new story task ticket
    issue branch branches jira id ids key number in on work to from as create creating always and or
    scheme style template using e g short descriptive kebab-case lowercase start starts begin
    begins starting commit commits message messages subject subjects title titles pr prs pull request
    requests git clear concise imperative mood present tense conventional semantic structured
    include including contain have text english line lines first header body your form this these
    required mandatory like summary summaries description it
    分支 分支命名 分支名 命名 使用 名 格式 必须 遵循 提交 信息 提交信息 标题 采用 规范 以 开头 统一 风格 前缀
    """.split()
)
_BRANCH_NOUNS = ("branch", "branch name", "worktree")


def read_naming(tokens: Sequence[Token]) -> Constraint | None:
    """Return the check of a sentence that says how something must be named."""
    return _read_file_names(tokens) or _read_branches(tokens) or _read_messages(tokens)


def _names_of(tokens: Sequence[Token]) -> list[str]:
    """Return the names in a sentence that says nothing else than how something is named."""
    names = [token.word for token in tokens if token.role == "name"]
    texts = [
        word
        for token in tokens
        if token.role not in ("name", "join")
        for word in token.text.replace("-", " ").split()
    ]
    known = {word for each in _WORDS for word in each.split("-")}
    return names if set(texts) <= known and not LIMITS.intersection(texts) else []


# --- branches -------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"<[^<>]*>|\{[^{}]*\}|\[(?!0-9\])[^\[\]]*\]|\.\.\.|…|\*")
_TICKET = re.compile(r"([A-Z]{2,})-(?:\d+|X+|N+|x+|\*)")
# The number of an issue of one project: `PAY-<n>`.
_NUMBER = re.compile(r"\b([A-Z]{2,})-(?:<(?:n|nr|num|number|id|issue)>|\{(?:n|nr|num|number|id)\})")
# What stands for words, and the keys of projects.
_PARTS = re.compile(r"(?=.*\*)(?:[A-Z]{2,}|(?:\[0-9\])?\*)(?:[-_.](?:[A-Z]{2,}|(?:\[0-9\])?\*))*")
_FOLDER = re.compile(r"[\w*.-]+", re.ASCII)
# Words that stand for a kind of branch: `type/description`.
_KINDS = frozenset("type category kind prefix username user name author agent scope".split())


_SHARED = ("main", "master", "develop", "dev", "trunk")


def _branch_glob(name: str) -> str:
    """Return the pattern of the branches that a name stands for; empty if it is no example."""
    text = _NUMBER.sub(r"\1-[0-9]*", name.strip())
    text = _TICKET.sub(r"\1-*", _PLACEHOLDER.sub("*", text))
    text = re.sub(r"\*+", "*", text)
    head, slash, rest = text.partition("/")
    if slash:
        is_kind = head in _KINDS or "*" in head
        # `<type>/<ticket>-<slug>` wants a hyphen, too, and `feature/PAY-<n>-<name>` the key.
        tail = "*"
        if _PLACEHOLDER.search(name) and _PARTS.fullmatch(rest):
            tail = rest
        glob = f"{'*' if is_kind else head}/{tail}"
        return glob if rest and _FOLDER.fullmatch(head) else ""
    if text in _SHARED:
        return text
    prefix = re.split(r"\[0-9\]|\*", text, maxsplit=1)[0]
    is_pattern = "*" in text and re.fullmatch(r"[\w.]+[-_]", prefix) is not None
    return f"{prefix}*" if is_pattern else ""


def _read_branches(tokens: Sequence[Token]) -> Commands | None:
    nouns = {token.word for token in tokens if token.role == "noun"}
    verbs = {token.word for token in tokens if token.role == "verb"}
    names = _names_of(tokens)
    if not nouns.intersection(_BRANCH_NOUNS) or not names or "worktree" in nouns:
        return None
    words = {token.text for token in tokens}
    is_naming = "branch name" in nouns or bool(words & {"named", "name", "naming", "follow", "per"})
    # "Branches: `feature/x`", "work on `a/<task>` branches".
    # "Work on `a/<task>` branches" was rewritten.
    is_listing = not verbs or (verbs == {"commit"} and "branches" in words)
    has_placeholder = any(re.search(r"[<{*\[]", name) for name in names)
    if not (is_naming or (is_listing and has_placeholder)) or verbs - {
        "follow",
        "use",
        "create",
        "start",
        "contain",
        "commit",
    }:
        return None
    # "`<type>/<slug>`, e.g. `feature/refunds`": the example allows no more than the template.
    is_example = bool({"e", "g"} <= words or words & {"like", "example", "e.g", "e.g."})
    templates = [name for name in names if re.search(r"[<{\[]", name)]
    globs = list(map(_branch_glob, templates if is_example and templates else names))
    if not all(globs) or set(globs) <= set(_SHARED):
        return None
    allowed = tuple(("git", "switch", "-c", glob) for glob in dict.fromkeys(globs))
    return Commands(v.BRANCH, unless=allowed, new_branches=True)


# --- commits and pull requests --------------------------------------------------------------------


def template_expression(name: str, *, literal: bool = False) -> str:
    """Return an expression for the messages that a template stands for; empty if it is none.

    Args:
        name: The template: `<type>(<scope>): <summary>`, `[TICKET-1] Title`, `TD-7: add rows`.
        literal: Whether a word in brackets is meant as it is written.
    """
    text = name.strip()
    start = ""
    groups = re.match(r"(?:\[[^\[\]\n]+\]\s*)+", text)
    if groups and not re.match(r"\[(?:optional|可选)", text):
        for group in re.findall(r"\[([^\[\]\n]+)\]", groups[0]):
            is_word = literal and re.fullmatch(r"[a-z]{3,}", group) is not None
            start += rf"\[{group}\]\s*" if is_word else r"\[[^\]\n]+\]\s*"
        text = text[groups.end() :]
    head, colon, rest = text.partition(":")
    if not colon or head.count(" ") > 2 or "//" in rest[:2]:
        return (
            f"^{start}" + r"\S" if start and (text or literal) else ("^" + start if start else "")
        )
    head = re.sub(r"\[[^\[\]]*\]|\([^()]*\)|!", "", head).strip()
    plain = head.strip("<>{} ").lower()
    if start:
        return rf"^{start}[^\s:][^:\n]*: ?\S"
    if plain in _TYPES or plain.split(" ")[0] in _TYPES:
        return CONVENTIONAL
    ticket = _TICKET.fullmatch(head)
    if ticket:
        is_example = ticket[1] in ("ABC", "PROJ", "JIRA", "TICKET", "XXX", "PROJECT", "ISSUE")
        return rf"^{'[A-Z][A-Z0-9]+' if is_example else ticket[1]}-\d+: ?\S"
    # `M<N>: <summary>`
    lettered = re.fullmatch(r"([A-Za-z]+[-#]?)<[^<>]+>", head)
    if lettered:
        return rf"^{lettered[1]}[^\s:]+: ?\S"
    is_placeholder = re.fullmatch(r"<[^<>]+>|\{[^{}]+\}|[a-z]+", head) is not None
    return r"^[^\s:][^:\n]*: ?\S" if is_placeholder and (rest.strip() or "<" in head) else ""


def _read_messages(tokens: Sequence[Token]) -> Messages | None:
    nouns = {token.word for token in tokens if token.role == "noun"}
    verbs = {token.word for token in tokens if token.role == "verb"}
    names = _names_of(tokens)
    is_title = "pr title" in nouns
    is_commit = bool(nouns & {"message", "subject"}) or "commit" in verbs
    if not (is_title or is_commit) or verbs - {
        "follow",
        "use",
        "commit",
        "start",
        "contain",
        "create",
        "save",
    }:
        return None
    kind: MessageKind = "pull request title" if is_title else "commit message"
    if is_title and not names and _is_conventional(tokens):
        return Messages(CONVENTIONAL, wanted=True, kind=kind)
    if len(names) != 1:
        return None
    is_start = "start" in verbs or "prefix" in nouns
    expression = template_expression(names[0], literal=is_start)
    if is_start and not expression:
        return None
    return Messages(expression, wanted=True, kind=kind) if expression else None


def _is_conventional(tokens: Sequence[Token]) -> bool:
    """Return whether a sentence says no more than "conventional commits" of something."""
    texts = {word for token in tokens if token.role != "join" for word in token.text.split()}
    is_named = any(token.word == "conventional" for token in tokens) or "semantic" in texts
    return is_named and texts <= _WORDS | {"commits", "commit"}


# --- files ----------------------------------------------------------------------------------------

_CASES = {
    "kebab-case": r"^[a-z0-9]+(?:[-.][a-z0-9]+)*$",
    "kebab case": r"^[a-z0-9]+(?:[-.][a-z0-9]+)*$",
    "snake_case": r"^_*[a-z0-9]+(?:[_.]+[a-z0-9]+)*_*(?:\.[a-z]+)?$",
    "pascalcase": r"^[A-Z][A-Za-z0-9]*(?:\.[a-z0-9]+)*$",
}
# Elsewhere, entry points, pages and hooks have these endings, too.
_COMPONENTS = tuple(f"**/components/**/*{ending}" for ending in (".tsx", ".jsx", ".vue", ".svelte"))
# A generator writes `components/ui/button.tsx`.
_NO_COMPONENTS = ("index.*", "**/hooks/**", "**/lib/**", "**/utils/**", "**/components/ui/**")
_KINDS_OF_FILES: dict[str, tuple[str, ...]] = {
    "typescript": ("*.ts", "*.tsx"),
    "ts": ("*.ts", "*.tsx"),
    "javascript": ("*.js", "*.jsx"),
    "js": ("*.js", "*.jsx"),
    "component": _COMPONENTS,
    "components": _COMPONENTS,
    "react": _COMPONENTS,
    "vue": ("*.vue",),
    "python": ("*.py",),
    "source": SCRIPTS,
}
_FILE_WORDS = frozenset(
    "for all new file files filename filenames names name naming must be named use in uses are the"
    " should follow is a and directory directories folder 文件名 命名 使用 file name".split()
)
# `latest.ts` ends as `FooTest.ts` does if case does not matter, and `load-test.ts` may be a script.
_TEST_FORMS = ("test_*{}", "*_test{}", "*.test{}", "*.spec{}")


def _read_file_names(tokens: Sequence[Token]) -> Names | None:
    nouns = {token.word for token in tokens if token.role == "noun"}
    texts = [token.text for token in tokens if token.role not in ("name", "join")]
    names = [token.word for token in tokens if token.role == "name"]
    if "tests" in nouns and len(names) == 1:
        return _read_test_files(texts, names[0])
    words = {word for text in texts for word in text.split()}
    written = [name for name in names if name.partition(".")[0].lower() in _CASES]
    cases = [each for each in _CASES if each in texts or any(each in name for name in written)]
    kinds = words.intersection(_KINDS_OF_FILES)
    is_about = bool(words & {"file", "files", "filename", "filenames", "file names", "文件名"})
    if len(cases) != 1 or len(kinds) != 1 or len(written) < len(names) or not is_about:
        return None
    if not words <= _FILE_WORDS | set(_CASES) | kinds:
        return None
    files = _KINDS_OF_FILES[kinds.pop()]
    # `__init__.py` and `README.py` follow other conventions, as do types such as `vite-env.d.ts`.
    others: tuple[str, ...] = ("*.config.*", "*.d.ts", "__*__.py")
    expression = _CASES[cases[0]]
    if files == _COMPONENTS:
        # `useCart.tsx` is a hook.
        expression = rf"{expression}|^use[A-Z-]"
        others += _NO_COMPONENTS
    return Names(expression, files, others, wanted=True)


_TEST_WORDS = frozenset(
    """
    test tests files file test files unit tests must be named end ends with suffix the should use
    named all new name names follow pattern in go as place under live are is placed prefix start
    """.split()
)


def _read_test_files(texts: Sequence[str], name: str) -> Names | None:
    """Read "test files must be named ⟦0⟧" and "test files end with ⟦0⟧"."""
    words = {word for text in texts for word in text.split()}
    if not words <= _TEST_WORDS or "go" in words:
        return None
    # The word "named" is dropped next to other words.
    if "*" not in name and "<" not in name and not words & {"named", "end", "ends", "suffix"}:
        return None
    form = re.fullmatch(r"(?:\*|<\w+>)?([\w.-]*?)(?:\*|<\w+>)?([\w-]*)(\.[a-z]{1,4})", name)
    if form is None or ("test" not in name.lower() and "spec" not in name.lower()):
        return None
    ending = form[3]
    is_ending = (
        "end" in words or "ends" in words or "suffix" in words or name.startswith(("*", "<"))
    )
    pattern = re.escape(re.sub(r"^\*|^<\w+>", "", name)).replace(r"\*", ".*")
    pattern = re.sub(r"<\w+>", ".*", pattern)
    expression = f"{pattern}$" if is_ending else f"^{pattern}$"
    return Names(expression, tuple(each.format(ending) for each in _TEST_FORMS), wanted=True)
