"""Split a rule into sentences, and each sentence into words and names."""

from __future__ import annotations

import re
from functools import cache

import attrs

from hilum_checks import lexicon
from hilum_checks import vocabulary as v
from hilum_checks.bare_names import bare_pattern
from hilum_checks.joining import BREAK, SplitSentence, join_parts
from hilum_checks.limit_words import LIMITS
from hilum_checks.limiting import is_limiting
from hilum_checks.tokens import Token, has_marker, tokenize
from hilum_checks.translations import translate
from hilum_checks.usual_wording import replace, rewrite

OPEN = "⟦"
CLOSE = "⟧"
MAX_SENTENCE = 2_000
"""Maximum number of characters in a rule; a longer one says more than a check can express."""


@attrs.frozen
class Sentence:
    """A sentence.

    Attributes:
        tokens: Its words and names, without those that do not change the meaning.
        text: Its text in lower case, with ``⟦0⟧`` for the first name.
        asides: The texts in parentheses, and the reason that follows the sentence.
        labels: The words before a colon that say what the sentence is about.
        scopes: Where the sentence says that it holds: "in reviews", "python".
        omitted: What a list in parentheses contains and is not understood.
        is_translated: Whether the rule is in a language of which hilum knows only the words of
            the forms, so that it cannot read a remark.
    """

    tokens: tuple[Token, ...]
    text: str
    asides: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    is_translated: bool = False


def split_rule(rule: str) -> list[Sentence] | str:
    """Return the sentences of a rule, or why it cannot be enforced."""
    text = _marker_pattern().sub("", rule.strip())
    mark = rule.strip()[: -len(text)] if text else ""
    # "❌ `git push`" says "never". Other sentences below such a mark say so themselves.
    if re.search("[❌✗✘]", mark) and not re.match(
        r"(?i)[*_]*(?:[a-z ]{2,40}[,:] ?)?[*_]*(?:never|no|do|don|must|only|always|ask)\b", text
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
    original = " ".join(text.replace("’", "'").lower().split())
    translated = translate(original)
    parts = _ENDS.split(_LISTED.sub(r"\1. ", replace("text", translated)))
    sentences = [_read(part, names) for part in parts if part.strip(" .!。！,，;；")]
    if translated == original:
        return sentences
    return [attrs.evolve(sentence, is_translated=True) for sentence in sentences]


_TYPE = r"(?:feat|fix|docs|style|refactor|perf|tests?|build|ci|chore|revert)"
# "Types: feat, fix, docs, chore".
_TYPE_LIST = re.compile(rf"(?<![\w`/-]){_TYPE}(?:(?:, |,| \| |\||/){_TYPE}){{2,}}(?![\w`/:(-])")
_MODIFIERS = (".only", ".skip", ".todo", ".unwrap", ".expect")
"""What tests and results are called with, and no endings of files."""
_ENDS = re.compile(
    r"[.!?](?:\s+|$)|[。！？；;]\s*|(?<!前)(?<!后)(?<!时)，(?=(?:不准|禁止|严禁|切勿|请勿|绝不))"
    r"|(?<=⟧)，(?=(?:未知|使用|改用|请|应|用|统一用))"
)

# "Never publish packages: no ⟦0⟧, no ⟦1⟧" forbids both. Other words before the colon may limit them.
_LISTED = re.compile(
    r"(?:^|(?<=[.!?;] ))((?:never|do not|don't|no) (?:publish|merge|deploy|release|push|commit|tag|install"
    r"|delete|rebase|amend)(?:ing|s)?(?: (?:packages|anything|changes|it|code|branches|pull requests|prs"
    r"|releases|commits|tags))?)(?::|,| [-–—]+) "
    r"(?=(?:no|never run) ⟦\d+⟧(?:(?:,| or|, or|,? and|;)(?: no| never run)? ⟦\d+⟧)+\s*(?:[.!;]|$))"
)


def _read(text: str, names: list[str]) -> Sentence:
    """Return the words of a sentence, without its decoration."""
    asides: list[str] = []
    omitted: list[str] = []
    whole = _drop_product_names(text, names)
    head = _take_asides(replace("note", whole.strip(" .!")), names, asides, omitted)
    head, scopes = _take_scopes(head)
    head = _cut_reason(_rewrite(head), names, asides)
    found = BREAK.search(head)
    if found is None:
        tokens = tuple(tokenize(head, names))
        return Sentence(tokens, whole, tuple(asides), scopes=scopes, omitted=tuple(omitted))
    label = head[: found.start()].strip()
    rest = head[found.end() :]
    following = _read(rest, names)
    is_colon = ":" in found[0] or "：" in found[0]
    left = tuple(tokenize(label, names))
    joined = join_parts(SplitSentence(label, left, rest, following.tokens, is_colon))
    if joined.tokens is None:
        return Sentence(left, whole, (*asides, rest), scopes=scopes, omitted=tuple(omitted))
    labels = (label,) if joined.is_label else ()
    return Sentence(
        joined.tokens,
        whole,
        asides=(*asides, *following.asides),
        labels=(*labels, *following.labels),
        scopes=(*scopes, *following.scopes),
        omitted=(*omitted, *following.omitted),
    )


# "In reviews, …", "when possible, …".
_BEGINNING = re.compile(
    r"^((?:only )?(?:in|on|at|for|during|within|inside|under|throughout|except|unless it is|while)\b"
    r"[^,:;⟦]{1,60}|(?:when|where)(?:ver)? (?:possible|practical|feasible|reasonable|appropriate)"
    r"|preferably|ideally|usually|generally|normally|typically|optionally|prefer)\s*[,:]\s*"
    r"|^((?:在|对于|针对|除|尽可能|尽量|最好)[^，,:：⟦]{0,20})[，,：:]\s*"
)
# 不要提交，在评审中
_END = re.compile(r"[，,]\s*(在[^，。；⟦]{1,12}(?:中|里|下|期间|阶段)|(?:对于|针对)[^，⟦]{1,12})$")
# "Never use ⟦0⟧ in Python".
_LANGUAGE = re.compile(
    r"\s+in ((?:python|typescript|javascript|rust|go|java|kotlin|swift|php|ruby|c#|\.net|cpp|s?css))"
    r"(?: code)?(?=\s*(?:[,;:(—–]|-\s|$))"
)


def _take_scopes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a sentence without the words that say where it holds, and these words."""
    scopes: list[str] = []
    beginning = _BEGINNING.match(text)
    scope = beginning[1] or beginning[2] if beginning else ""
    if beginning and is_limiting(scope):
        scopes.append(scope)
        text = text[beginning.end() :]
    end = _END.search(text)
    if end and is_limiting(end[1]):
        scopes.append(end[1])
        text = text[: end.start()]
    languages = dict.fromkeys(_LANGUAGE.findall(text))
    return _LANGUAGE.sub("", text), (*scopes, *languages)


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
    if not is_list or LIMITS.search(inner):
        return ""
    rest = [item for item in items if item not in named and not re.match(r"etc\b|…|\.\.\.", item)]
    if any(len(item.split()) > 5 for item in rest):
        return ""
    omitted += rest
    return " or ".join(named)


def _rewrite(text: str) -> str:
    """Return a text in which other ways to say the same are replaced by the usual one."""
    is_prohibition = re.search(r"\b(?:never|not|don't|no)\b", text) is not None
    text = replace("sentence", text)
    if is_prohibition:
        text = replace("prohibition", text)
    return replace("order", text) if _SITUATED.match(text) else text


def _cut_reason(head: str, names: list[str], asides: list[str]) -> str:
    """Return a text without the reason at its end, which is added to the asides."""
    # In "before committing, run `x`", the comma begins no reason.
    start = head.find(",") + 1 if _SITUATED.match(head) else 0
    found = _reason_pattern().search(head, start)
    if found is None:
        return head
    # "Create a branch, run `x` before pushing": the order is no reason.
    is_order = " before " in head[found.end() :]
    if is_order and not has_marker(tokenize(head[: found.start()], names)):
        return head
    asides.append(head[found.end() :])
    return head[: found.start()]


_LINT = re.compile(r"(?:@?[\w-]+/)*(?:no|prefer|enforce|require|ban)-[a-z-]+")
# Sentences that begin with when or before what something must be done.
_SITUATED = re.compile(r"(?:before|prior to|after|when|whenever|if|once|every time|each time)\b")


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


# --- names ----------------------------------------------------------------------------------------


@cache
def _not_programs() -> re.Pattern[str]:
    program = "|".join(v.UNQUOTED_PROGRAMS)
    return re.compile(
        rf"(?:not|never|no) (?:{program})(?:(?:/|,| or| and|, or)(?: not)? ?(?:{program}))*"
    )


@cache
def _marker_pattern() -> re.Pattern[str]:
    return re.compile(r"^(?:(?:[-*+•>]|\d+[.)]|\[[ xX]\]|[^\w\s`\"'“「*_.⟦/~(\[]+)\s+)++")


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
