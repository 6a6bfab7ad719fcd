"""Read what sentences say about commit messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks.clauses import ANYWHERE, Clause, beginnings, read_clauses
from hilum_checks.model import Messages
from hilum_checks.naming import CONVENTIONAL
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

# Lines that programs add to the end of commit messages.
TRAILER = re.compile(r"(?i)(?:co-authored-by|generated (?:with|by))\b.*")
MIN_TYPES = 3
"""Minimum number of types in a sentence that lists all of them; one or two are examples."""
WRITING = ("create", "add", "contain", "use", "save", "introduce", "")


# Words which show that a list of types is not complete: "`feat:`, `fix:`, `docs:` or similar".
_IS_INCOMPLETE = re.compile(
    r"\b(?:similar|other|others|more|like|e g|as|another|appropriate|等)\b|等"
)
# What else messages are to be: it does not change the form.
_STYLE = frozenset(
    """
    imperative mood present tense concise short one-line single-line clear descriptive meaningful
    scoped small focused single-purpose atomic lowercase summary summaries description descriptions
    seen such canonical prefixed type types body scope scopes area style styles title titles adopt
    standard format formatted good well-formed
    """.split()
)


def read_wanted_message(tokens: Sequence[Token], scope: Scope) -> Messages | None:
    """Read "use conventional commits" and "commit messages in English".

    What else the messages are to be is added to ``scope.omitted``.
    """
    known = [token for token in tokens if token.text not in _STYLE]
    for part in beginnings(known):
        clauses = read_clauses(_without_end(part))
        found = _read_wanted(_merge_subject(clauses[0])) if len(clauses) == 1 else None
        if found:
            rest = [token for token in known[len(part) :] if token.role not in ("join", "filler")]
            if rest:
                text = " ".join(token.text or f"`{token.word}`" for token in rest)
                scope.omitted.append(re.sub(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])", "", text))
                if _IS_INCOMPLETE.search(text) and found.expression.startswith(r"\A(?:"):
                    found = attrs.evolve(found, expression=CONVENTIONAL)
            # "Messages in English: `type: description`" is read as the form only.
            languages = clauses[0].nouns & {"english", "chinese"}
            if languages and found.expression == CONVENTIONAL:
                scope.omitted.append(f"in {' or '.join(sorted(languages))}")
            return found
    return None


def _without_end(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return a part of a sentence without a place and a join at its end, which name nothing."""
    end = len(tokens)
    while end and tokens[end - 1].role in ("place", "join"):
        end -= 1
    return tokens[:end]


def _merge_subject(clause: Clause) -> Clause:
    """Return a clause that speaks of commit messages where it spoke of their subjects."""
    if "subject" not in clause.nouns:
        return clause
    return attrs.evolve(clause, nouns=clause.nouns - {"subject"} | {"message"})


def _read_wanted(clause: Clause) -> Messages | None:
    if clause.length:
        return _read_length(clause) if set(clause.verbs) <= {"limit", "use"} else None
    if clause.has_only(nouns="message|english|chinese|git", places="in|to|with"):
        return _read_language(clause)
    if _are_types(clause):
        return Messages(_list_types(clause.names) or CONVENTIONAL, wanted=True)
    if "ticket" in clause.nouns or (clause.verbs == ["contain"] and clause.names):
        return _read_needed_text(clause)
    if "conventional" not in clause.nouns:
        return None
    # The names are examples of types: `feat:`, or of the form: `<type>: <description>`.
    are_types = all(
        re.search(r":$|^<?\w+>?(?:\(<?\w+>?\))?!?:\s|^[a-z]+$", name) for name in clause.names
    )
    is_plain = clause.has_only(
        "names", nouns="conventional|message|git|standard|history|prefix|existing", places="in|with"
    )
    # "The history uses them" only describes.
    is_plain = is_plain and ("history" not in clause.nouns or "in" in clause.places)
    is_use = set(clause.verbs) <= {"use", "follow", "commit", "create", "save"}
    if not (are_types and is_plain and is_use):
        return None
    return Messages(_list_types(clause.names) or CONVENTIONAL, wanted=True)


def _list_types(names: Sequence[str]) -> str:
    """Return an expression for messages with one of the types that a sentence lists.

    Returns:
        The expression; empty if the sentence lists none, or only gives an example.
    """
    types = [re.fullmatch(r"([a-z]+):?", name) for name in names]
    if len(types) < MIN_TYPES:
        return ""
    listed = "|".join(found[1] for found in types if found)
    return rf"\A(?:{listed})(?:\([^)]*\))?!?: \S" if all(types) else ""


# Names with a number that belong to no ticket: `UTF-8`, `SHA-256`.
_STANDARDS = (
    r"(?:UTF|UCS|ISO|IEC|IEEE|ECMA|RFC|PEP|CP|KOI8|SHA\d?|MD|AES|RSA|HMAC|CRC|HTTP|TLS|SSL|IPV|ES|H|X|CVE"
    r"|GPT|BASE|COVID|USB|PCI|DDR)"
)


def _read_needed_text(clause: Clause) -> Messages | None:
    """Read "include the issue number in commit messages" and "mention ⟦0⟧ in commit messages"."""
    is_plain = clause.has_only("names", nouns="ticket|message|git", places="in")
    if not is_plain or "message" not in clause.nouns or set(clause.verbs) - {"contain"}:
        return None
    names = [re.sub(r"\d+", "0", name) for name in clause.names]
    if len(names) > 1 or not (clause.verbs or names):
        return None
    if not names:
        return Messages(rf"#\d+|\b(?!{_STANDARDS}-)[A-Z][A-Z0-9]+-\d+", wanted=True)
    expression = re.escape(names[0]).replace("0", r"\d+").replace(r"\ ", r"\s+")
    return Messages(expression, wanted=True)


def _read_length(clause: Clause) -> Messages | None:
    """Read "subjects under 72 characters"."""
    is_plain = clause.has_only("length", nouns="message|git|it", places=ANYWHERE)
    if not clause.length or not is_plain or "message" not in clause.nouns:
        return None
    most, unit = clause.length
    return Messages(rf"\A[^\n]{{{most + 1},}}") if unit == "characters" and most >= 20 else None


def _read_language(clause: Clause) -> Messages | None:
    """Read the language of commit messages."""
    if "message" not in clause.nouns or not {
        "use",
        "create",
        "save",
        "commit",
        "follow",
    }.issuperset(clause.verbs):
        return None
    if "english" in clause.nouns:
        return (
            Messages(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Cyrillic}]")
            if "chinese" not in clause.nouns
            else None
        )
    return Messages(r"\p{Han}", wanted=True) if "chinese" in clause.nouns else None


def _are_types(clause: Clause) -> bool:
    """Return whether a sentence lists the types of conventional commits: `feat:`, `fix:`."""
    is_about = bool(clause.nouns & {"message", "prefix"}) or "commit" in clause.verbs
    is_plain = clause.has_only("names", nouns="message|prefix|git|standard|existing", places="with")
    types = all(re.fullmatch(r"[A-Za-z]+:", name) for name in clause.names)
    # `<type>(<scope>): <description>`
    has_form = is_about and len(clause.names) == 1 and not clause.verbs
    if has_form and clause.has_only("names", nouns="message|prefix|git|english|chinese"):
        return (
            re.match(
                r"(?:type|feat|fix|<(?:type|prefix|类型|前缀)>)(?:\(.*\))?!?: ", clause.names[0]
            )
            is not None
        )
    is_sure = {"feat:", "fix:"}.issubset(clause.names) or "message" in clause.nouns
    is_use = {"use", "follow", "commit", "start"}.issuperset(clause.verbs)
    return is_about and is_plain and types and len(clause.names) > 1 and is_sure and is_use


_ATTRIBUTION = (
    r"(?i)co-authored-by:.*(?:claude|copilot|codex|cursor|gemini|gpt|anthropic|openai|\bai\b|agent)"
    r"|generated (?:with|by) .*(?:claude|copilot|codex|cursor|gemini|gpt|\bai\b)"
)


def read_attribution(verb: str, clause: Clause) -> Messages | None:
    """Read "never add AI attribution to commits" and "do not commit with a co-author"."""
    known = {
        "co-author",
        "ai",
        "trailer",
        "attribution",
        "message",
        "text",
        "pull request",
        "issue",
        "tool",
    }
    is_known = clause.nouns <= known
    if clause.names or clause.branches or clause.kinds or not is_known:
        return None
    if {"co-author", "ai"} <= clause.nouns and verb in (*WRITING, "commit"):
        return Messages(_ATTRIBUTION)
    if "co-author" in clause.nouns and verb in (*WRITING, "commit"):
        return Messages(r"(?i)co-authored-by:")
    if verb == "contain" and clause.nouns - {"pull request"} == {"ai", "message"}:
        return Messages(rf"{_ATTRIBUTION}|\b(?:claude|copilot|codex|anthropic)\b")
    is_about_commits = {"ai", "attribution"} <= clause.nouns or {
        "ai",
        "trailer",
        "message",
    } <= clause.nouns
    return Messages(_ATTRIBUTION) if is_about_commits and verb in WRITING else None


# A pictogram before "Generated with".
_SYMBOLS = re.compile(r"^[^\w\s`@<(\[#\"']+\s+(?=generated\b)", re.IGNORECASE)


def read_unwanted_message(verb: str, clause: Clause) -> Messages | None:
    """Read "never add ⟦0⟧ to commit messages"."""
    clause = _merge_subject(clause)
    if verb == "exceed":
        return _read_length(clause)
    if verb == "end" and clause.has_only(nouns="message|period", places="with"):
        return Messages(r"\A[^\n]*\.[ \t]*(?:\n|\Z)") if "period" in clause.nouns else None
    clause = attrs.evolve(clause, names=[_SYMBOLS.sub("", name) for name in clause.names])
    words = "message|text|trailer|pull request|issue"
    if verb not in WRITING:
        return None
    if "emoji" in clause.nouns and clause.has_only(nouns=f"{words}|emoji", places=ANYWHERE):
        return Messages(r"\p{Emoji_Presentation}")
    if not clause.names or not clause.has_only("names", nouns=words, places=ANYWHERE):
        return None
    if "message" not in clause.nouns and not all(map(TRAILER.fullmatch, clause.names)):
        return None
    names = "|".join(map(re.escape, clause.names))
    return Messages(rf"(?i)(?<!\w)(?:{names})(?!\w)")
