"""Splits a rule into sentences, and each sentence into words and names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import attrs

from hilum_checks import lexicon
from hilum_checks import vocabulary as v
from hilum_checks.bare_names import bare_pattern
from hilum_checks.translations import translate
from hilum_checks.usual_wording import rewrite

OPEN = "⟦"
CLOSE = "⟧"
MAX_SENTENCE = 2_000
"""Maximum number of characters in a rule; a longer one says more than a check can express."""
UNREADABLE = "unknown"


@attrs.frozen
class Token:
    """A word, a name or a mark of punctuation.

    Attributes:
        role: The role of the word in ``lexicon``, or ``name``, ``length``, ``asking`` or
            ``unknown``.
        word: The word that stands for its synonyms, or the name.
        text: The text as written, in lower case.
    """

    role: str
    word: str
    text: str = ""


@attrs.frozen
class Sentence:
    """A sentence.

    Attributes:
        tokens: Its words and names, without those that do not change the meaning.
        text: Its text in lower case, with ``⟦0⟧`` for the first name.
        asides: The texts in parentheses, and the reason that follows the sentence.
        labels: The words before a colon that say what the sentence is about.
        omitted: What a list in parentheses contains and is not understood.
    """

    tokens: tuple[Token, ...]
    text: str
    asides: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()


def split_rule(rule: str) -> list[Sentence] | str:
    """Return the sentences of a rule, or why it cannot be enforced."""
    text = _marker_pattern().sub("", rule.strip())
    mark = rule.strip()[: -len(text)] if text else ""
    # "❌ `git push`" says "never". Other sentences below such a mark say so themselves.
    if re.search("[❌✗✘]", mark) and not re.match(
        r"(?i)[*_]*(?:never|no|do|don|must|only|always|ask)\b", text
    ):
        text = f"never {text}"
    # "❌ Using `x`", and "using `x`" below "Never".
    text = re.sub(r"(?i)^((?:never|do not|don't)\b:? )using\b", r"\1use", text)
    if len(text) > MAX_SENTENCE:
        return "it is too long for one constraint"
    if re.search(r"[?？](?:\s|$)", text):
        return "it asks a question"
    # The author of a file could otherwise forge the anchors that mark quoted names.
    if OPEN in text or "\x00" in text:
        return "it contains characters that no rule needs"
    text = rewrite(text)
    text = _TYPE_LIST.sub(lambda found: re.sub(r"[a-z]+", r"`\g<0>:`", found[0]), text)
    names: list[str] = []

    def set_apart(found: re.Match[str]) -> str:
        name = next(group for group in found.groups() if group is not None).strip()
        # "`.lng` files" are files with this ending.
        is_ending = re.fullmatch(r"\.[a-z0-9]{1,12}", name) and not v.DOTTED.fullmatch(name)
        is_ending = is_ending and name not in _MODIFIERS
        names.append(f"*{name}" if is_ending else name)
        return f"{OPEN}{len(names) - 1}{CLOSE}"

    # Links to files of the project: `[the guide](docs/guide.md)`.
    text = re.sub(
        r"\[(?:[^\]`]|`[^`]*`)+\]\((?!https?:|mdc:)([\w./-]+\.[a-z]{2,4})(?:#[\w-]*)?\)",
        r"`\1`",
        text,
    )
    # Cursor writes file references as links such as `[name](mdc:path)`.
    text = re.sub(r"\[([^\]]*)\]\(mdc:([^)]*)\)", r"`\2`", text)
    text = re.sub(r"\[([^\]`]+)\]\(https?:[^)]*\)", r"\1", text)
    text = _quote_pattern().sub(set_apart, text)
    if "`" in text:
        return "its quotes are not balanced"
    # Emphasis is removed after quoted names are set apart, because names may contain ``*`` and
    # ``_``, and before bare paths, because a path may be in bold.
    text = re.sub(r"(\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))", "", text)
    text = bare_pattern().sub(set_apart, text)
    text = _bare_name_pattern().sub(set_apart, text)
    text = translate(" ".join(text.replace("’", "'").lower().split()))
    text = re.sub(r"\b(e\.g|i\.e)\.", r"\1", re.sub(r"\s+at all\b", "", text))
    text = re.sub(r"\bauto-?(commit|push|merge)\b", r"automatically \1", text)
    text = re.sub(r"[≤<]=?\s*(?=\d)", "at most ", re.sub(r"~\s*(?=\d)", "", text))
    return [_read(part, names) for part in _ENDS.split(text) if part.strip(" .!。！,，;；")]


_TYPE = r"(?:feat|fix|docs|style|refactor|perf|tests?|build|ci|chore|revert)"
# "Types: feat, fix, docs, chore".
_TYPE_LIST = re.compile(rf"(?<![\w`/-]){_TYPE}(?:(?:, |,| \| |\||/){_TYPE}){{2,}}(?![\w`/:(-])")
_MODIFIERS = (".only", ".skip", ".todo", ".unwrap", ".expect")
"""What tests and results are called with, and no endings of files."""
_ENDS = re.compile(
    r"[.!?](?:\s+|$)|[。！？；;]\s*|(?<!前)(?<!后)(?<!时)，(?=(?:不准|禁止|严禁|切勿|请勿|绝不))"
    r"|(?<=⟧)，(?=(?:未知|使用|改用|请|应|用|统一用))"
)


def _read(text: str, names: list[str]) -> Sentence:
    """Return the words of a sentence, without its decoration."""
    closed = _read_note(text)
    if closed:
        return Sentence(tuple(_tokenize(closed, names)), text)
    asides: list[str] = []
    omitted: list[str] = []
    text = _drop_product_names(text, names)
    head = _take_asides(text, names, asides, omitted)
    head = _cut_reason(_rewrite(head), names, asides)
    found = _BREAK.search(head)
    if found is None:
        return Sentence(tuple(_tokenize(head, names)), text, tuple(asides), (), tuple(omitted))
    return _join_parts(text, head, found, names, asides, omitted)


def _read_note(text: str) -> str:
    """Return what a note in parentheses demands: "types in ⟦0⟧ (generated, do not edit)"."""
    stored = _COMMIT_ASIDE.search(text)
    if stored:
        return f"do not commit {stored[1]}"
    listed = _LISTED_ASIDE.match(text.strip(" .!"))
    if listed:
        return f"do not edit {listed[1]}"
    symlink = _SYMLINK.match(text)
    if symlink:
        return f"do not hand-edit {symlink[1]}"
    output = _OUTPUT_ASIDE.match(text.strip(" .!"))
    if output:
        return f"do not hand-edit {output[1]}"
    edited = _EDIT_ASIDE.search(text)
    if edited is None or "generated" not in text[: edited.end()]:
        return ""
    is_certain = not _doubt_pattern().search(text[: edited.start()])
    return f"do not hand-edit {edited[1]}" if is_certain else ""


def _take_asides(text: str, names: list[str], asides: list[str], omitted: list[str]) -> str:
    """Return a text without the parts in parentheses, except those that name what it is about.

    Args:
        text: The text.
        names: The names in it.
        asides: The other parts in parentheses, which are added.
        omitted: What lists in parentheses contain and is not understood, which is added.
    """

    def take_aside(found: re.Match[str]) -> str:
        inner = found[1].strip()
        named = [names[int(number)] for number in re.findall(rf"{OPEN}(\d+){CLOSE}", inner)]
        if _NAMES.fullmatch(inner) and all(map(_LINT.fullmatch, named)):
            return " "  # "no `any` (`@typescript-eslint/no-explicit-any`)"
        if _NAMES.fullmatch(inner):
            return f" {inner} "  # "generated files (`src/gen/`)" names the files
        if re.match(rf"(?:not|never|no|不是|不要用?)\s*{OPEN}", inner):
            return f", {inner} "  # "use `uv` (not `pip`)"
        if _not_programs().fullmatch(inner):
            return f", {inner} "  # "use pnpm (not npm/yarn)"
        example = _EXAMPLE.fullmatch(inner)
        if example and OPEN not in text[: found.start()] and _NAMING.search(text[: found.start()]):
            return f" {example[1]} "  # "titles need a ticket (e.g. `[A-1] Title`)"
        if inner in ("mandatory", "required", "only"):
            return ", mandatory "
        listed = _read_listed(text[: found.start()], inner, omitted)
        if listed:
            return f" {listed} "
        asides.append(inner)
        return " " if found.start() else ""

    return re.sub(r"\s*[(（]([^()（）]*)[)）]", take_aside, text).strip()


_EXAMPLE = re.compile(r"(?:e\.?g|for example|such as|like)\b[.,:]*\s*(⟦\d+⟧)")
_NAMING = re.compile(
    r"\b(?:titles?|commits?|commit messages?|branch(?: names?| naming|es)?|subjects?)\b"
)


def _drop_product_names(text: str, names: list[str]) -> str:
    """Return a text without the names of products before their programs: "OpenTofu (`tofu`)"."""

    def drop(found: re.Match[str]) -> str:
        is_program = names[int(found[2])] in v.PROGRAMS and found[1] not in lexicon.lexicon()
        return f"{OPEN}{found[2]}{CLOSE}" if is_program else found[0]

    return re.sub(r"\b([a-z]+) [(（]⟦(\d+)⟧[)）]", drop, text)


# "Destructive commands (⟦0⟧, force pushes)", "artifacts (⟦0⟧, etc.)".
_LISTABLE = re.compile(
    r"\b(?:never|not|don't|no|ask|refuse)\b.*\b(?:commands?|operations?|actions?|files?|folders?"
    r"|directories|artifacts?|secrets?|credentials)\W*$"
)


def _read_listed(before: str, inner: str, omitted: list[str]) -> str:
    """Return the names in a list in parentheses after a general word; empty if it is none."""
    inner = re.sub(r"^(?:e\.?g|i\.?e|for example|such as|like|including)\b[.,:]?\s*", "", inner)
    items = [item.strip() for item in re.split(r",|;|/(?=⟦)|\bor\b|\band\b", inner) if item.strip()]
    named = [item for item in items if re.fullmatch(r"⟦\d+⟧(?: files?)?", item)]
    is_list = bool(named) and _LISTABLE.search(before) is not None
    if not is_list or _limit_pattern().search(inner):
        return ""
    rest = [item for item in items if item not in named and not re.match(r"etc\b|…|\.\.\.", item)]
    if any(len(item.split()) > 5 for item in rest):
        return ""
    omitted += rest
    return " or ".join(named)


def _rewrite(text: str) -> str:
    """Return a text in which other ways to say the same are replaced by the usual one."""
    head = text
    is_prohibition = re.search(r"\b(?:never|not|don't|no)\b", head) is not None
    for pattern, replacement in _REWRITES:
        head = pattern.sub(replacement, head)
    if is_prohibition:
        for pattern, replacement in _PROHIBITION_REWRITES:
            head = pattern.sub(replacement, head)
    # "Before pushing, run `x` to catch errors".
    if _SITUATED.match(head):
        head = _CHECKING.sub("", head)
    return head


def _cut_reason(head: str, names: list[str], asides: list[str]) -> str:
    """Return a text without the reason at its end, which is added to the asides."""
    # In "before committing, run `x`", the comma begins no reason.
    start = head.find(",") + 1 if _SITUATED.match(head) else 0
    found = _reason_pattern().search(head, start)
    if found is None:
        return head
    # "Create a branch, run `x` before pushing": the order is no reason.
    is_order = " before " in head[found.end() :]
    if is_order and not _has_marker(_tokenize(head[: found.start()], names)):
        return head
    asides.append(head[found.end() :])
    return head[: found.start()]


def _join_parts(
    text: str,
    head: str,
    found: re.Match[str],
    names: list[str],
    asides: list[str],
    omitted: list[str],
) -> Sentence:
    """Return a sentence from the parts before and after a dash or a colon."""
    left = _tokenize(head[: found.start()], names)
    rest = head[found.end() :]
    following = _read(rest, names)
    tokens = following.tokens
    labels = following.labels
    label = head[: found.start()].strip()
    is_colon = ":" in found[0] or "：" in found[0]
    only_left = Sentence(tuple(left), text, (*asides, rest), (), tuple(omitted))
    is_demand = any(token.role == "MUST" for token in left) and len(left) > 1
    if is_demand and not _has_marker(tokens) and not is_colon:
        # "Branch names must start with `a/` - the pipeline needs it".
        return only_left
    if not _has_marker(left):
        # "`dist/` is generated - do not edit" names the files first; "Package manager:" is a label.
        if _names_subject(left, tokens):
            tokens = (*left, *tokens)
        else:
            labels = (label, *labels)
    elif _asks_instead(left, tokens):
        # "Never commit directly - always ask before committing" asks.
        return Sentence(tokens, text, (*asides, *following.asides), labels, tuple(omitted))
    elif tokens and tokens[0].role == "NOT" and _says_where(left):
        # "Use them only in some files - never use `a` elsewhere".
        labels = (label, *labels)
    elif tokens and tokens[0].role == "NOT" and _is_unclear(left):
        # "No unnecessary files - do not create docs unless asked".
        labels = (label, *labels)
    elif _says_when(left, tokens):
        # "Type checks matter before committing - always run `a`".
        at = next(at for at, token in enumerate(left) if token.role == "BEFORE")
        tokens = (*left[at:], *tokens)
    elif _is_before(left):
        # "Before committing: `a`" names what must run.
        tokens = _put_order(left, tokens)
    elif ":" in found[0] and _hint_pattern().match(rest) and _has_object(left):
        # "Never push to `main`: always use a branch".
        return only_left
    elif is_colon:
        is_verb_heading = _is_verb_heading(left)
        if _is_approval(left):
            tokens = (*_ASK_BEFORE, *tokens)
        elif _has_marker(tokens) and not is_verb_heading:
            return only_left
        else:
            tokens = (_NOT, *tokens) if is_verb_heading else _insert(left, tokens)
    elif not (_is_choice(left) and _has_marker(tokens)):
        return only_left
    both = (*omitted, *following.omitted)
    return Sentence(tokens, text, (*asides, *following.asides), labels, both)


def _is_unclear(left: Sequence[Token]) -> bool:
    """Return whether a prohibition names nothing, and a word of it is not known."""
    is_prohibition = bool(left) and left[0].role == "NOT"
    names = any(token.role in ("name", "branch") for token in left)
    return is_prohibition and not names and any(token.role == UNREADABLE for token in left)


def _says_when(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether a part says only when the command after it must run."""
    roles = [token.role for token in left]
    is_when = roles.count("BEFORE") == 1 and "name" not in roles and roles[0] != "BEFORE"
    known = [token for token in left if token.role in lexicon.MARKERS]
    is_order = bool(right) and right[0].word == "run" and right[0].role == "verb"
    return is_when and len(known) == 1 and is_order and not _has_marker(right)


def _asks_instead(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether what must not be done is to be asked about: "never push - ask before pushing"."""
    roles = dict.fromkeys(token.role for token in right if token.role in lexicon.MARKERS)
    if [*roles][:2] != ["ASK", "BEFORE"]:
        return False
    # "Ask before Git operations - ask before `git push`" says it twice.
    if [token.role for token in left if token.role in lexicon.MARKERS] == ["ASK", "BEFORE"]:
        return not any(token.role == "name" for token in left)
    if left[0].role != "NOT":
        return False
    verbs = {token.word for token in left if token.role == "verb"}
    return bool(verbs) and verbs <= {token.word for token in right if token.role == "verb"}


def _names_subject(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether the words before a colon or a dash say what the sentence is about."""
    # "Follow the style of `rustfmt` - run `cargo fmt` before committing".
    if left and left[0].role == "verb" and right and right[0].role == "verb":
        return False
    if any(token.role == "name" or token.word in _SUBJECTS for token in left):
        return True
    # "Branch naming: `feature/x`".
    is_noun = any(token.word in _NAMED_SUBJECTS for token in left)
    is_noun = is_noun or [token.text for token in left] in (["commits"], ["commit"])
    return is_noun and not any(token.role in lexicon.MARKERS for token in right)


_LINT = re.compile(r"(?:@?[\w-]+/)*(?:no|prefer|enforce|require|ban)-[a-z-]+")
# "Types in `src/api.ts` (generated, do not edit)".
_EDIT_ASIDE = re.compile(
    r"(⟦\d+⟧(?:\s*(?:,|/|and|or|, and)\s*⟦\d+⟧)*)\s*(?:files?|folders?|directory)?\s*[(（]"
    r"(?:(?:auto-?)?generated[^\w()]+)?(?:do not|don't|never) (?:hand-)?(?:edit|modify|touch|change)"
    r"(?: it| them| directly| manually| by hand)*[)）]"
)
# "`public/` - compiled output (do not edit directly)".
_OUTPUT_ASIDE = re.compile(
    r"^(⟦\d+⟧)\s*(?:[-–—:]|is|are)\s*[^()⟦]*\b(?:generated|compiled|built|build|bundled)\b[^()⟦]*"
    r"[(（](?:do not|don't|never) (?:hand-)?(?:edit|modify|touch|change)(?: it| them| directly| manually| by hand)*[)）]$"
)
# "Old documents (do not edit): `a`, `b`".
_LISTED_ASIDE = re.compile(
    r"^[^⟦()（）]*[(（](?:do not|don't|never) (?:hand-)?(?:edit|modify|touch|change)(?: it| them| directly"
    r"| manually| by hand)*[)）]\s*[:：-]?\s*(⟦\d+⟧(?:,? (?:and |or )?⟦\d+⟧)*)$"
)
# "`a` is a symlink to `b` - always edit `b`".
_SYMLINK = re.compile(
    r"^(⟦\d+⟧(?:(?:,| and|, and) ⟦\d+⟧)*) (?:is|are) (?:a |both )?(?:[a-z]+ )?sym-?links? (?:to|of) (?:⟦\d+⟧|this file)"
    r"\s*(?:[-–—]|,)\s*(?:so |and |always |only |please )*(?:edit|update|change)\b"
)
# "Keep secrets in `.env` (never commit)".
_COMMIT_ASIDE = re.compile(
    r"(⟦\d+⟧)\s*[(（](?:(?:git-?)?ignored[^\w()]+)?(?:do not|don't|never) commit(?: it| this)?[)）]$"
)
# What a file is generated from says nothing about the rule: "`a` is generated by `b` from `c`".
_SOURCE = re.compile(
    r"\b((?:auto-?)?generated) (?:by|from|via|with|using)\b[^,.;:()—–]*?"
    r"(?=\s+[-–—]|[,;:—]|\s+and (?:must|should)\b|$)"
)
# "Keep ⟦0⟧ out of version control".
_KEPT_OUT = re.compile(
    r"\bkeep ([^,;]*⟦\d+⟧[^,;]*) (?:untracked(?=[ .!]*$)"
    r"|out of (?:the )?(?:git|version control|source control|commits)\b)"
)
# "⟦0⟧ is generated and must not be committed". "⟦0⟧ is not committed" only says what is.
_UNCOMMITTED = re.compile(
    r"^(?:the )?(?:files? |folder |directory )?(⟦\d+⟧(?:(?:, and|,| and) ⟦\d+⟧)*)(?: files?)?"
    r"(?: (?:is|are) (?:(?:auto-?)?generated|\.?git-?ignored),?(?: and|(?= must)))?"
    r" (?:(?:must|should) (?:not|never) be|(?<=and )never) committed[ .!]*$"
)
# "Never work on `main`" is about commits.
_WORKING = re.compile(
    r"\b(?:work|develop)(?:ing)? (?:directly )?on (?=(?:the )?(?:⟦|main\b|master\b|develop\b))"
)
_SUBJECTS = ("conventional", "prefix", "message")
_NAMED_SUBJECTS = ("branch name", "branch", "pr title", "subject", "file name", "managing")
_BREAK = re.compile(r"\s+[-–—]{1,2}\s+|—+|:(?:\s+|$)|：")
# Sentences that begin with when or before what something must be done.
_SITUATED = re.compile(r"(?:before|prior to|after|when|whenever|if|once|every time|each time)\b")
_CHECKING = re.compile(
    r"\s+to (?:format|lint|check|verify|validate|ensure|catch|confirm|keep|update|refresh|regenerate"
    r"|rebuild|sync|fix|see|make sure|avoid|prevent|understand|get|learn)\b(?!.*\b(?:if|when|unless)\b)[^,;⟦]*$"
)
# Other ways to say the same, in the order in which they are replaced.
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (
            r"\s+and fix (?:any|all|the)? ?(?:reported |lint )?"
            r"(?:issues|errors|warnings|problems|failures)",
            "",
        ),
        (_SOURCE.pattern, r"\1"),
        (_WORKING.pattern, "commit to "),
        (_KEPT_OUT.pattern, r"never commit \1"),
        (_UNCOMMITTED.pattern, r"never commit \1"),
        (r" in (?:\.net|c#|c\+\+)(?!\w)", ""),
        (r"\bis an? read-only [\w-]+(?: [\w-]+)?$", "is read-only"),
        # "Run `x` to check the types before pushing".
        (r"\bto (?:validate|verify|check|ensure|confirm) [a-z ]+? (?=(?:locally )?before\b)", ""),
        # "Read ⟦0⟧ if it is not in context yet": whoever knows it has read it.
        (
            r",? if (?:it|they|you) (?:is not|isn't|are not|aren't|have not|haven't)\b"
            r"[^,;:—]*?(?=\s+[-–—]|[,;:—]|$)",
            "",
        ),
        # "Confirm the status with ⟦0⟧ before editing" asks nobody.
        (r"^confirm (?=[^;]*\bwith ⟦\d+⟧ before\b)", "check "),
        (r",? as requested\b|\bwith no (?:type |lint )?(?:errors|warnings|failures|issues)\b", ""),
        # "Ask for permission to push".
        (r"\b(approval|permission|confirmation|consent|authorization) to (?=[a-z])", r"\1 before "),
        (r"\band before\b", "and"),
        # "Package manager: pnpm (mandatory)".
        (r"\bpackage manager: (⟦\d+⟧|\w+), mandatory\b", r"use \1 as the package manager"),
        # "Do not edit it, even when a test fails".
        (r",? even (?:if|when|for|in|as|though)\b[^,;:—]*$", ""),
    )
)
_PROHIBITION_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # "Never edit generated files such as ⟦0⟧" names some of them.
        (r",? (?:such as|like|including) (?=⟦)", " "),
        # "Use ⟦0⟧, not ⟦1⟧, for all commands".
        (
            r"(?<=⟧),? for (?:all |any |repo |repository |project |workspace )*"
            r"(?:commands|scripts|tasks|operations|everything)$",
            "",
        ),
        # "Never create a branch for any task", "do not run `mypy` for type checks".
        (
            r"\s+for any (?:task|step|reason|purpose|change|work|feature|plan|operation)s?\b[^;:—]*$"
            r"|(?<=⟧)\s+for (?:type[- ]?check(?:s|ing)|linting|formatting)$",
            "",
        ),
        (r"\s+of (?:the |a |any )?commits?$", ""),
        # "No ⟦0⟧ in committed code".
        (r"\s+in (?:the )?(?:committed|final|merged|checked-in) (?:code|tests|files)\b", ""),
        # "Do not edit ⟦0⟧ or similar files".
        (r"(?<=⟧),? (?:or|and) (?:any )?(?:other|similar|equivalent)\b[^,;:—]*$", ""),
        # What the forbidden thing is always for limits nothing.
        (
            r"(?<=⟧) to (?:bypass|silence|suppress|skip|circumvent|work around|get around|discard)"
            r"\b[^,;:—]*(?=$|[,;:—])",
            "",
        ),
    )
)


def _has_marker(tokens: Sequence[Token]) -> bool:
    return any(
        token.role in lexicon.MARKERS and token.role not in ("MUST", "AVOID") for token in tokens
    )


def _says_where(tokens: Sequence[Token]) -> bool:
    """Return whether a part names nothing and forbids nothing, although it says "only"."""
    roles = {token.role for token in tokens}
    markers = roles & {*lexicon.MARKERS, "name"}
    # "Releases are made automatically - do not tag" says only why.
    return (markers <= {"ONLY", "MUST"} and "ONLY" in roles) or markers == {"UNASKED"}


_RUN = Token("verb", "run", "run")
_NOT = Token("NOT", "NOT", "never")
_ASK_BEFORE = (Token("ASK", "ASK", "ask"), Token("BEFORE", "BEFORE", "before"))
# Words that say no more than "this" in a line above a list: "Never do any of these things:".
_LIST_WORDS = frozenset(
    "do doing perform performing take any of these things the following actions task change".split()
)


def _has_object(tokens: Sequence[Token]) -> bool:
    roles = [token.role for token in tokens]
    return "NOT" in roles and "verb" in roles and ("name" in roles or "branch" in roles)


def _is_verb_heading(tokens: Sequence[Token]) -> bool:
    """Return whether a part forbids what follows it, and says no more: "Never do this:"."""
    rest = [
        token
        for token in tokens
        if token.text not in _LIST_WORDS | lexicon.AGENTS and token.word != "it"
    ]
    return bool(rest) and all(token.role == "NOT" for token in rest)


def _is_approval(tokens: Sequence[Token]) -> bool:
    """Return whether a part asks for approval of what follows it: "Ask if a task requires:"."""
    rest = [
        token
        for token in tokens
        if token.role != "asking" and token.text not in _LIST_WORDS | lexicon.ASKING
    ]
    roles = [token.role for token in rest if token.word not in ("it", "commands")]
    return roles in (
        ["ASK"],
        ["ASK", "BEFORE"],
        ["ASK", "WHEN", "NEEDS"],
        ["NEEDS", "ASK"],
        ["MUST", "ASK", "BEFORE"],
        ["ONLY", "WHEN", "ASK"],
    )


def _is_before(tokens: Sequence[Token]) -> bool:
    """Return whether a part says only before what something must be done: "before committing"."""
    roles = {token.role for token in tokens}
    return "BEFORE" in roles and roles <= {"BEFORE", "MUST", "verb", "noun", "join", "filler"}


def _put_order(left: list[Token], right: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return a sentence with the commands that follow its colon: "Run before committing: ⟦0⟧"."""
    start = [token.role for token in left].index("BEFORE")
    if left[-1].word == "run" or any(token.role == "verb" for token in right):
        return (*left, *right)
    return (*left[:start], *right, *left[start:]) if start else (*left, _RUN, *right)


def _is_choice(tokens: Sequence[Token]) -> bool:
    """Return whether a part says only what to use: "bun only", before "never use npm"."""
    return {token.role for token in tokens} == {"ONLY", "name"}


def _insert(left: list[Token], right: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return a sentence with the list that follows its colon: "Never edit: ⟦0⟧"."""
    roles = [token.role for token in left]
    if [role for role in roles if role != "asking"][-1] == "ASK" and "verb" not in roles:
        return (*left, Token("BEFORE", "BEFORE"), *right)
    # "Lint all files before committing: ⟦0⟧".
    if "BEFORE" in roles[1:] and not {"ASK", "NOT", "verb"} & set(roles[: roles.index("BEFORE")]):
        at = roles.index("BEFORE")
        return (*left[:at], *right, *left[at:])
    # In "Never edit these without approval: ⟦0⟧", the list belongs to the verb.
    start = roles.index("verb") if "verb" in roles else len(roles)
    ends = [at for at in range(start, len(roles)) if roles[at] in lexicon.MARKERS]
    end = ends[0] if ends else len(roles)
    return (*left[:end], *right, *left[end:])


_NAMES = re.compile(
    r"⟦\d+⟧(?:\s*(?:,|、|/|\||and|or|和|或|, and|, or)\s*⟦\d+⟧)*"
    r"(?:\s+(?:files?|prefix(?:es)?|format|style))?"
)


@cache
def _reason_pattern() -> re.Pattern[str]:
    """Return a pattern for the beginning of a reason, or of what to do instead."""
    return re.compile(
        r",\s*(?=(?:because|since|as (?:it|they|this|these)|it(?:'s| is)|they(?:'re| are)|these"
        r"|this|use|run|prefer|including|instead|which (?:is|are)|so"
        r"|the user (?:will|does|runs|starts|handles)|i will|we will)\b)"
        r"|\s+(?=to (?:prevent|avoid)\b)|\s+(?=because\b|since (?:it|they|this|these)\b"
        r"|as (?:it|they|these|this|that) (?:is|are|can|will|may|causes?|breaks?)\b"
        r"|so that\b)"
        r"|\s*(?:→|=>|->)\s*"
        r"|[，,]\s*(?=等待?(?:用户|我)(?:确认|同意|批准))|[，,]\s*(?=因为|它|这|由于|请?(?:改用|使用)|应(?:使用|改用)|而是)"
    )


# --- words ----------------------------------------------------------------------------------------

_SCAN = re.compile(
    r"⟦(?P<name>\d+)⟧|(?P<number>\d[\d,]*)\s*(?P<unit>[a-z]+|[\u4e00-\u9fff]+)?"
    r"|(?P<word>[a-z]+(?:['-][a-z]+)*)|(?P<han>[\u3040-\u9fff]+)|(?P<join>[,，、&/])"
    r"|(?P<other>[^\s.\"“”'*_])"
)


def _tokenize(text: str, names: list[str]) -> list[Token]:
    """Return the words and names of a sentence, with their roles."""
    tokens: list[Token] = []
    words: list[str] = []
    end = len(text)
    position = 0
    while position < end:
        found = _SCAN.search(text, position)
        if found is None:
            break
        position = found.end()
        kind = found.lastgroup or ""
        if found["word"]:
            if found["word"] not in lexicon.FILLERS:
                words.append(found["word"])
            continue
        tokens += _look_up(words)
        words = []
        if found["name"]:
            tokens.append(Token("name", names[int(found["name"])]))
        elif found["number"]:
            unit, position = _find_unit(found)
            limit = found["number"].replace(",", "")
            if _BELOW.search(text, 0, found.start()):
                limit = str(max(int(limit) - 1, 0))
            tokens.append(Token("length" if unit else UNREADABLE, unit, limit))
        elif found["han"]:
            tokens += _segment(found["han"])
        else:
            role = UNREADABLE if kind == "other" else kind
            tokens.append(Token(role, found[0].strip(), found[0].strip()))
    return tokens + _look_up(words)


# Words before a number that is itself too many: "under 72 characters".
_BELOW = re.compile(r"(?:\b(?:under|below|(?:less|fewer|shorter) than)|少于|低于|小于|短于)\s*\Z")


def _find_unit(found: re.Match[str]) -> tuple[str, int]:
    """Return the unit after a number, and where the unit ends."""
    written = found["unit"] or ""
    for length in range(len(written), 0, -1):
        unit = lexicon.units().get(written[:length])
        if unit and (length == len(written) or not written.isascii()):
            return unit, found.start("unit") + length
    return "", found.end("number")


def _look_up(words: list[str]) -> list[Token]:
    """Return the roles of English words; the longest phrase wins."""
    tokens = []
    start = 0
    while start < len(words):
        for length in range(min(lexicon.max_phrase(), len(words) - start), 0, -1):
            phrase = " ".join(words[start : start + length])
            entry = lexicon.lexicon().get(phrase)
            if entry or length == 1:
                break
        tokens.append(_token(phrase, entry))
        start += length
    return tokens


def _segment(text: str) -> list[Token]:
    """Return the roles of the words in a Chinese text; the longest word wins."""
    tokens = []
    start = 0
    while start < len(text):
        for length in range(min(lexicon.max_characters(), len(text) - start), 0, -1):
            word = text[start : start + length]
            entry = lexicon.lexicon().get(word)
            if entry or word in lexicon.FILLERS or word in lexicon.ASKING or length == 1:
                break
        if word not in lexicon.FILLERS:
            tokens.append(_token(word, entry))
        start += length
    return tokens


def _token(text: str, entry: lexicon.Entry | None) -> Token:
    if entry is None:
        if text in lexicon.PROGRAMS:
            return Token("name", text, text)
        return Token("asking" if text in lexicon.ASKING else UNREADABLE, text, text)
    return Token(entry.role, entry.word, text)


# --- names ----------------------------------------------------------------------------------------


@cache
def _not_programs() -> re.Pattern[str]:
    program = "|".join(lexicon.PROGRAMS)
    return re.compile(
        rf"(?:not|never|no) (?:{program})(?:(?:/|,| or| and|, or)(?: not)? ?(?:{program}))*"
    )


@cache
def _marker_pattern() -> re.Pattern[str]:
    return re.compile(r"^(?:(?:[-*+•>]|\d+[.)]|\[[ xX]\]|[^\w\s`\"'“「*_.⟦/~(\[]+|#{1,6})\s+)+")


@cache
def _quote_pattern() -> re.Pattern[str]:
    return re.compile(
        r"``\s?(.+?)\s?``|`([^`]+)`|(?<!\w)\"([^\"]{1,120})\"|“([^”]{1,120})”|「([^」]{1,120})」"
        r"|‘([^’]{2,120})’(?!\w)"
    )


@cache
def _bare_name_pattern() -> re.Pattern[str]:
    """Return a pattern for paths and options that cannot be mistaken for words."""
    extension = (
        "json5?|jsonc|ya?ml|toml|lockb?|sql|env|md|mdc|txt|pem|key|sh|cfg|ini|xml|csv|proto|tf"
        "|tfvars|tfstate|snap|plist|config|csproj"
    )
    dotted = (
        r"\.(?:env|git|github|vscode|idea|ssh|aws|husky|circleci|gitignore|gitlab-ci|npmrc|venv"
        r"|cursor|claude)\b(?:[./][\w./*-]*[\w*/])?"
    )
    in_folders = (
        rf"(?:[\w.*-]+/)+(?:[\w*-]+\.(?:{extension}|py|pyi|tsx?|jsx?|go|rs|java|rb|php|css|html"
        r"|vue)\b|(?=[\s,.;:，。；、]|$|[\u4e00-\u9fff]))"
    )
    file = rf"[A-Za-z_][\w-]*(?:\.[\w-]+)*\.(?:{extension})\b(?![/(])"
    absolute = r"~/[\w./-]*[\w/]|/(?:etc|usr|var|home|root|boot|opt)(?:/[\w./-]*[\w/])?"
    return re.compile(
        rf"(?<![\w`⟦/@.:-])({dotted}|\.[a-z0-9]{{1,8}}(?=\s+files?\b)|{in_folders}|\*\.[a-z0-9]{{1,10}}\b|{file}|{absolute}"
        r"|--[a-z][a-z-]+[a-z]|node_modules/?)"
    )


# --- what the rest of a rule says -----------------------------------------------------------------

# Words that may revoke or limit the sentence, whatever else the text contains.
_LIMITING = (
    r"unless|except\w*|excluding|other than|apart from|only|but|however|if|when\w*|while|until"
    r"|without|may|might|could|can|allowed|permitted|ok|okay|fine|exceptions?|not|never|ask"
    r"|sometimes"
)
_LIMITING_CHINESE = "除非|除了|例外|但是?|如果|若|时|只有|仅|可以|允许|不"


@cache
def _limit_pattern() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{_LIMITING})\b|{_LIMITING_CHINESE}")


@cache
def _doubt_pattern() -> re.Pattern[str]:
    """Return a pattern for words that may limit the sentence, for a text that is not a hint."""
    return re.compile(
        rf"\b(?:{_LIMITING}|every|each|aside from|otherwise|usually|generally|normally|typically|prefer\w*"
        r"|try|avoid|ideally|consider|possible|necessary|needed|appropriate|unlikely|e\.g"
        r"|for example|such as|including|etc|like|whether|or|either|in case|for now|temporar\w*"
        r"|during|before|after|first|always|must)\b"
        rf"|{_LIMITING_CHINESE}|除外|当|尽量|最好|建议|避免|例如|比如|等|否则|情况|必要|先|前"
    )


@cache
def _hint_pattern() -> re.Pattern[str]:
    return re.compile(
        r"^(?:please |then |just |always |properly |instead,? )*(?:use|handle|follow|rely|write"
        r"|go through|stick|let|keep|wrap|rebuild|prefer|work|type|run|call|edit|change|regenerate|generate|create"
        r"|add|see|update|apply|put|set|instead)\b|^(?:请|应|改用|使用|运行|见)"
    )


def is_harmless(text: str) -> bool:
    """Return whether a text only explains a rule, or says what to do instead."""
    text = re.sub(r"\b(?:rather than|instead|ever|at all)\b", "", text)
    text = re.sub(r"等待?(?:用户|我)(?:确认|同意|批准)", "", text)
    # A reason limits nothing, nor does what widens a rule.
    text = re.sub(r"\bbecause [^,;]*|\bto (?:prevent|avoid) [^,;]*", "", text)
    text = re.sub(r",? even (?:when|if)\b[^,;]*|\bnot optional(?: suggestions)?\b", "", text)
    if re.match(r"(?:as|since|because) (?!needed|required|appropriate|long)", text):
        return re.search(r"\b(?:unless|except|however|but)\b", text) is None
    if _HELP.match(text):
        return True
    text = re.sub(r"^(?:as|since) (?:it|they|these|this|that) (?:can|will|may)\b", "", text)
    text = re.sub(r"\bas the only (?:⟦\d+⟧|\w+)$", "", text.strip())
    text = re.sub(r"^(?:stage|add) [\w ]+ only$", "", text)
    text = re.sub(
        r"\b(?:is|are) (?:not |never )?(?:meant|intended|supposed) to be edited", "", text
    )
    # Another prohibition makes no exception, nor do examples.
    prohibition = r"^(?:and |also |in particular,? |likewise,? |similarly,? )*"
    prohibition += r"(?:(?:never|do not|don't|must not)\b|不准|禁止|严禁|切勿|请勿|绝不)"
    text, number = re.subn(prohibition, "", text.strip())
    if number:
        return _limit_pattern().search(text) is None
    examples = r"^(?:e\.g|i\.e|for example|such as|like|including)\b"
    if re.match(examples, text):
        return _limit_pattern().search(text) is None
    text = re.sub(r",? etc\.?$", "", text)
    text = re.sub(r"^⟦\d+⟧ only$|^(?:p?npm|yarn|bun|uv|poetry|cargo) only$", "", text.strip())
    is_hint = _hint_pattern().match(text)
    pattern = _limit_pattern() if is_hint else _doubt_pattern()
    return pattern.search(text) is None


_OTHERS = (
    r"\b(?:unless|except(?! handling)\w*|excluding|other than|apart from|aside from|only|but"
    r"|however|if|when\w*|while|until|without|may|might|could|can|allowed|permitted|ok|okay|fine"
    r"|exceptions?|not|never|ask|sometimes|otherwise|in case|for now|temporar\w*|during)\b"
)
_SITUATION = (
    r"^(?:when|whenever|if|while|during|until|once|after|before|for|in|on|as)\b"
    r"|^only\b|\bonly (?:in|on|for|when|if|after|during)\b"
    r"|\b(?:unless|except(?! handling)\w*|but|however|may|can|allowed|permitted|exceptions?"
    r"|applies|apply|following|these rules|ok|okay|fine|should not|otherwise)\b"
)


def is_other_harmless(text: str, *, earlier: bool) -> bool:
    """Return whether another sentence of a rule limits nothing.

    Args:
        text: The sentence.
        earlier: Whether it stands before the sentence that is enforced, so that its conditions
            are its own.
    """
    # "Use ⟦0⟧ for slow tests. Do not use ⟦1⟧" is about tests.
    if earlier and re.search(r"\b(?:for|in) (?:[\w-]+ ){0,2}(?:tests?|production)\b", text):
        return False
    if is_harmless(text):
        return True
    if re.search(_LIMITING_CHINESE, text):
        return False
    text = re.sub(
        r"\bwith no exceptions?\b|\binstead\b|\ballowed (?:types|scopes|prefixes)\b", "", text
    ).strip()
    return re.search(_SITUATION if earlier else _OTHERS, text) is None


# What to do if a rule cannot be kept, and doubts about which the user is to be asked.
_HELP = re.compile(
    r"(?:if|when|where) (?:[^,;]*\b(?:exceed\w*|fail\w*|violat\w*|missing|not found|unavailable|longer|larger"
    r"|grow\w*)\b[^,;]*, (?!ask|skip|ignore|you (?:may|can))"
    r"|[^,;]*, (?:please |always |stop and |then )*ask\b)(?!.*\b(?:may|can|allowed|unless|except|skip)\b)"
)


def wants_new_files(text: str) -> bool:
    """Return whether a rule calls for new files, so that creating files is not forbidden."""
    pattern = r"\b(?:create|add|write|make|generate)\w* (?:a |an |another )?new\b|新建|新增|新的"
    return re.search(pattern, text) is not None


def is_about_generated(text: str) -> bool:
    """Return whether a rule says that a program generates its files."""
    pattern = r"\b(?:auto-?)?(?:re-?)?generat\w*|生成|produced by|build output|compiled"
    return re.search(pattern, text) is not None
