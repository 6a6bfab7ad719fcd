"""Sentences in English: what they forbid, or want to be asked for.

A sentence is taken only if all of it is understood.
"""

# Expressions are read whole.
# ruff: noqa: E501

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import english_words as words
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.english_words import AGENT, ANCHOR, LIST, NOT
from hilum_rules.checks.model import READS, WRITES, Action, Ban, Commands, Effect, Paths
from hilum_rules.checks.objects import Reading, each_part, split

_IT = r"(?:it is |it's )?(?:strictly |absolutely |expressly )?(?:forbidden|prohibited|not allowed|not permitted|never allowed)\s+to\s+"
_UNDER = r"under no circumstances\s+(?:(?:should|may|must|shall|can)\s+)?(?:you|the agent|agents|the assistant)?\s*"
_ENDS = (
    r"(?:\s+(?:ever|at all|for any reason|under any circumstances?|under any condition|no matter what|in this (?:repo|repository|project|codebase)"
    r"|in the (?:repo|repository|project|codebase)|yourself))*"
)
_YES = r"(?:permission|approval|confirmation|consent|authorization|go-ahead|sign-off|instructions?|request|being asked|asking|confirming|checking)"
_USER = r"(?:the )?(?:user(?:'s)?|human(?:'s)?|me|my|us|owner(?:'s)?|developer(?:'s)?|maintainer(?:'s)?|your human)"
_WITHOUT = (
    rf"\s+without\s+(?:first\s+)?(?:an?\s+|any\s+)?(?:(?:{_USER}|explicit|prior|express|written|user|human|clear)\s+)*{_YES}"
    rf"(?:\s+(?:to do so|first|from {_USER}|by {_USER}|with {_USER}|{_USER}|for (?:permission|confirmation|approval)|{_USER} first))*"
)
_UNLESS = (
    rf",?\s+(?:unless|until)\s+(?:(?:{_USER}|you(?:'re| are| have been| were)?|i|it is|it's|they)\s+)?(?:(?:is|are|has|have|was|have been|been)\s+)?"
    r"(?:explicitly\s+|specifically\s+|expressly\s+|directly\s+)?(?:ask(?:s|ed)?|request(?:s|ed)?|tell(?:s)?|told|instruct(?:s|ed)?|approve(?:s|d)?"
    rf"|confirm(?:s|ed)?|authori[sz]ed?)(?:\s+(?:explicitly|to|you|you to|to do so|you to do so|by {_USER}|for it|it|so|otherwise|a commit|one|this))*"
)
_WHEN = _UNLESS.replace("unless|until", "when|if|after|once|unless|until", 1)
_OWN = r"\s+(?:automatically|on your own|proactively|on your own initiative|unprompted)"

_VERBS: dict[str, frozenset[Action]] = {
    **dict.fromkeys(
        "edit modify change alter touch update overwrite rewrite tamper-with hand-edit".split(),
        WRITES,
    ),
    **{
        "write to": WRITES,
        "write into": WRITES,
        "make changes to": WRITES,
        "make edits to": WRITES,
        "make any changes to": WRITES,
    },
    **{"write": frozenset({"create", "change"}), "save": frozenset({"create", "change"})},
    **dict.fromkeys(
        ("delete", "remove", "erase", "rename", "move", "unlink"), frozenset[Action]({"delete"})
    ),
    **dict.fromkeys(("create", "add", "place", "put"), frozenset[Action]({"create"})),
    **dict.fromkeys(("read", "open", "view", "cat", "look at", "inspect", "read from"), READS),
    "access": READS | WRITES,
}
_BRANCHED = {"push": v.GIT_PUSH, "force push": v.FORCE_PUSH, "commit": v.GIT_COMMIT}
_GERUNDS = {
    "running": "run",
    "putting": "put",
    "committing": "commit",
    "pushing": "push",
    "deleting": "delete",
    "removing": "remove",
    "editing": "edit",
    "modifying": "modify",
    "changing": "change",
    "altering": "alter",
    "touching": "touch",
    "updating": "update",
    "overwriting": "overwrite",
    "rewriting": "rewrite",
    "writing": "write",
    "renaming": "rename",
    "moving": "move",
    "creating": "create",
    "adding": "add",
    "reading": "read",
    "opening": "open",
    "viewing": "view",
    "accessing": "access",
    "executing": "execute",
    "using": "use",
    "invoking": "invoke",
    "calling": "call",
    "installing": "install",
    "making": "make",
    "force-pushing": "force-push",
    "amending": "amend",
    "staging": "stage",
    "publishing": "publish",
    "sending": "send",
    "contacting": "contact",
    "connecting": "connect",
    "fetching": "fetch",
    "visiting": "visit",
    "downloading": "download",
    "loading": "load",
    "performing": "perform",
    "taking": "take",
    "issuing": "issue",
    "posting": "post",
    "erasing": "erase",
}
_FORMS = {
    "direct edits to": "directly edit",
    "manual edits to": "manually edit",
    "edits to": "edit",
    "changes to": "modify",
    "modifications to": "modify",
    "direct changes to": "directly edit",
    "manual changes to": "manually edit",
    "commits": "commit",
    "pushes": "push",
    "force pushes": "force-push",
    "force-pushes": "force-push",
    "force pushing": "force-push",
    "force-pushing": "force-push",
    "sudo": "use sudo",
    "network access": "access the network",
    "network requests": "make network requests",
    "emails": "send emails",
    "new dependencies": "add new dependencies",
}


@cache
def _NOUNS() -> re.Pattern[str]:
    """What stands behind "no" as a noun and is said as a verb elsewhere."""
    return re.compile(rf"^({'|'.join(sorted(_FORMS, key=len, reverse=True))})(?= |$)")


_PARTICIPLES = {
    "edited": "edit",
    "modified": "modify",
    "changed": "change",
    "altered": "alter",
    "touched": "touch",
    "updated": "update",
    "overwritten": "overwrite",
    "rewritten": "rewrite",
    "written to": "write to",
    "deleted": "delete",
    "removed": "remove",
    "renamed": "rename",
    "moved": "move",
    "read": "read",
    "opened": "open",
    "accessed": "access",
    "run": "run",
    "executed": "execute",
    "used": "use",
    "invoked": "invoke",
    "called": "call",
    "contacted": "contact",
    "visited": "visit",
}


def read(reading: Reading) -> tuple[Effect, tuple[Ban, ...]] | None:
    """Read the head of a sentence: its effect and what it bans, or nothing."""
    head = reading.phrase.head
    found = _frames()["ask"].fullmatch(head)
    if found:
        bans = actions(found["act"], reading)
        return ("ask", bans) if bans else None
    found = _frames()["needs"].fullmatch(head)
    if found:
        bans = actions(found["act"], reading)
        return ("ask", bans) if bans else None
    answer = words.answers(head, reading)
    if answer:
        return "deny", (answer,)
    context = words.contexts(head, reading)
    if context:
        return "deny", (context,)
    found = _frames()["asked"].fullmatch(head)
    if found:
        bans = actions(found["act"] or found["act2"], reading)
        return ("ask", bans) if bans else None
    found = _frames()["rather"].fullmatch(head)
    if found:
        other = reading.commands(found["list"], used=True)
        return ("deny", (other,)) if other else None
    found = _frames()["only"].fullmatch(head)
    if found:
        beyond = reading.beyond(found["list"])
        return ("deny", (beyond,)) if beyond else None
    found = _frames()["passive"].fullmatch(head)
    if found:
        return _passive(found, reading)
    found = _frames()["closed"].fullmatch(head)
    if found:
        closed = _files(found["paths"], WRITES, reading)
        return ("deny", (closed,)) if closed else None
    found = _frames()["not"].fullmatch(head)
    if found:
        if head.startswith("no "):
            act = _NOUNS().sub(lambda noun: _FORMS[noun[1]], found["act"])
        else:
            act = found["act"]
        effect: Effect = "deny"
        for ending in ("without", "unless", "own"):
            cut = _frames()[ending].search(act)
            if cut:
                act = act[: cut.start()]
                effect = "ask"
                break
        bans = actions(act, reading)
        return (effect, bans) if bans else None
    return None


@cache
def _frames() -> dict[str, re.Pattern[str]]:
    ask = (
        rf"(?:{AGENT}(?:must |should |shall )?)?(?:always |please )*(?:ask(?: (?:{_USER}))?(?: for (?:explicit )?(?:permission|confirmation|approval))?(?: first)?"
        rf"|confirm(?: with {_USER})?|check with {_USER}|(?:get|obtain|request|seek|require) (?:(?:explicit|{_USER}|user|human|prior|written) )*"
        rf"(?:approval|permission|confirmation|consent)(?: from {_USER})?)"
    )
    needs = r"(?:always )?(?:requires?|needs?) (?:(?:explicit|user|human|prior|the user's|my|your) )*(?:approval|permission|confirmation|consent)"
    return {
        "ask": re.compile(rf"{ask},? before (?:you )?(?P<act>.+?){_ENDS}"),
        "needs": re.compile(rf"(?P<act>.+?) {needs}(?: first| from {_USER})?"),
        "passive": re.compile(
            rf"(?P<lead>.*?)(?P<paths>{LIST})(?P<rest>.*?) (?:(?:must|may|should|shall|can) (?:never|not)|cannot|can't|is never to|are never to"
            rf"|is not to|are not to) be (?:manually |directly )?(?P<verb>[a-z ,]+?)(?P<hand> (?:by hand|manually|directly))?{_ENDS}(?P<yes>{_WITHOUT}|{_UNLESS})?"
        ),
        "only": re.compile(
            rf"{AGENT}(?:(?:may|must|should|can|are allowed to) )?only (?:ever )?(?:edit|modify|change|touch|write|write to|create|edit or create|create or modify) (?:files? )?(?:in|under|inside|within) (?:the )?(?P<list>{LIST})(?: (?:director(?:y|ies)|folders?))?"
        ),
        "closed": re.compile(
            rf"(?P<paths>.*{ANCHOR}.*?) (?:is|are) (?:strictly |completely |always |considered )?(?:read-only|read only|off-limits|off limits|immutable|frozen|not to be touched){_ENDS}"
        ),
        "asked": re.compile(
            rf"{AGENT}(?:(?:must|should|may|can) )?(?:only (?P<act>.+?)|(?P<act2>.+?) only){_WHEN}"
        ),
        "rather": re.compile(
            rf"{AGENT}(?:(?:must|should) )?(?:always )?use {ANCHOR},? (?:and )?(?:never|not|do not use|don't use|never use) (?P<list>{LIST})"
        ),
        "not": re.compile(
            rf"(?:{_UNDER}|{_IT}|{NOT}|no |forbidden |prohibited )(?P<act>.+?){_ENDS}"
        ),
        "without": re.compile(_WITHOUT + "$"),
        "unless": re.compile(_UNLESS + "$"),
        "own": re.compile(_OWN + "$"),
    }


def _passive(found: re.Match[str], reading: Reading) -> tuple[Effect, tuple[Ban, ...]] | None:
    verbs = [_PARTICIPLES.get(each) for each in split(found["verb"])]
    if None in verbs or not verbs:
        return None
    if found["hand"] or re.search(r" be (?:manually|directly) ", found[0]):
        hand = " by hand"
    else:
        hand = ""
    text = f"{found['lead']}{found['paths']}{found['rest']}".strip()
    bans = actions(f"{' or '.join(str(verb) for verb in verbs)} {text}{hand}", reading)
    if bans:
        return ("ask" if found["yes"] else "deny", bans)
    return None


# --- what is done ---------------------------------------------------------------------------------


def actions(text: str, reading: Reading) -> tuple[Ban, ...]:
    """Read what is done: one thing, or several that are joined.

    Nothing if a part of it is not understood.
    """
    return each_part(text.strip(" ,"), reading, _action)


def _action(text: str, reading: Reading) -> Ban | None:
    first, space, rest = text.partition(" ")
    text = f"{_GERUNDS.get(first, first)}{space}{rest}"
    text = re.sub(r"(?<=[ ,/])(\w+ing)\b", lambda m: _GERUNDS.get(str(m[1]), str(m[1])), text)
    plain = words.plain(text)
    if plain:
        return plain
    found = _acts()["hooks"].fullmatch(text)
    if found:
        if found["list"]:
            return reading.commands(found["list"], used=True)
        return Commands(v.SKIP_HOOKS)
    found = _acts()["branch"].fullmatch(text)
    if found:
        named = reading.branches(found["list"])
        if named:
            return Commands(
                _BRANCHED[found["verb"].replace("-", " ").replace("make commits", "commit")],
                branches=named,
            )
        return None
    found = _acts()["outside"].fullmatch(text)
    if found:
        return reading.beyond(found["list"])
    found = _acts()["command"].fullmatch(text)
    if found:
        used = "use" in split(found["verb"]) or "call" in found["verb"]
        if found["what"] == "tool" or found["that"]:
            return reading.tools(found["list"])
        means = (reading.tools(found["list"], known=True) if used else None) or reading.commands(
            found["list"], used=used
        )
        if means or not found["verb"].startswith("call"):
            return means
    found = _acts()["bare"].fullmatch(text)
    if found:
        return reading.commands(found["list"], used=True, many=True)
    found = _acts()["tool"].fullmatch(text)
    if found:
        return reading.tools(found["list"])
    found = _acts()["host"].fullmatch(text)
    if found and (hosts := reading.hosts(found["list"])):
        return hosts
    found = _acts()["files"].fullmatch(text)
    if found:
        verbs = split(found["verb"])
        if any(verb not in _VERBS for verb in verbs):
            return None
        does = frozenset[Action]().union(*(_VERBS[verb] for verb in verbs))
        if "write" in verbs and not re.match(
            r"(?:any |new )*(?:files|code|anything)? ?(?:to|in|into|inside|under) |⟦", found["what"]
        ):
            return None
        hand = bool(found["hand"] or found["hand2"]) or "hand-edit" in verbs
        if hand and "read" in does:
            return None  # "never access `x` directly" is said of code
        return _files(found["what"], does, reading, hand=hand)
    return None


@cache
def _acts() -> dict[str, re.Pattern[str]]:
    verb = "|".join(sorted(_VERBS, key=len, reverse=True))
    verbs = rf"(?:{verb})(?:(?:,? or |,? and |, |/|,? nor )(?:{verb}))*"
    return {
        "command": re.compile(
            r"(?P<verb>(?:run|execute|issue|use|call)(?: or (?:run|execute|use))?)"
            rf" (?:the |any )?(?P<list>{LIST})(?P<what> commands?| tools?)?(?P<that> tool)?(?: directly| manually)?"
        ),
        "bare": re.compile(rf"(?P<list>{LIST})"),
        "hooks": re.compile(
            r"(?:bypass|skip|circumvent) (?:any |the |all |git |pre-commit |pre-push |commit |husky )*hooks?"
            rf"(?: (?:with|using|via|in|by passing) (?P<list>{LIST}))?"
        ),
        "branch": re.compile(
            r"(?:directly )?(?P<verb>force[- ]push|push|commit|make commits)(?: (?:any |your )?(?:changes?|code|commits|anything))?(?: directly| straight)?"
            rf" (?:to|on|onto|into) (?:the )?(?P<list>(?:{ANCHOR}|[a-z]+)(?:(?: or | and |/|, |,? or )(?:{ANCHOR}|[a-z]+))*)(?: branch(?:es)?)?(?: directly)?"
        ),
        "outside": re.compile(
            rf"(?:edit|modify|change|touch|write|create|write to|create or modify|edit or create|modify or create) (?:(?:any )?(?:files?|anything|code) )?outside(?: of)? (?:the )?(?P<list>{LIST})(?: (?:director(?:y|ies)|folders?))?"
        ),
        "tool": re.compile(
            rf"(?:use|call|invoke) (?:the )?(?:tools? (?P<list>{LIST})|(?P<list2>x)x)"
        ),
        "host": re.compile(
            r"(?:contact|access|visit|call|connect to|fetch(?: anything| data)? from|download(?: anything| files)? from|talk to|reach"
            r"|make (?:any )?(?:requests|calls|http requests|api calls) to|send (?:any )?(?:data|requests|anything|code|traffic) to|browse to|open connections to)"
            rf" (?:the )?(?:hosts?|domains?|servers?|sites?|urls?)? ?(?P<list>{LIST})"
        ),
        "files": re.compile(
            rf"(?P<hand>(?:manually|directly) )?(?P<verb>{verbs}) (?P<what>.*{ANCHOR}.*?)(?P<hand2> (?:by hand|manually|directly))?"
        ),
    }


_NOUN = (
    r"(?:the |any |all |any of the |our |these |your |every |everything |anything |a |single )*(?:contents? of |content of |code in |code under )?"
    r"(?:(?:auto-?generated|generated|existing|applied|committed|vendored|compiled|built|new|source|config(?:uration)?|lock|lock-?|environment|migration"
    r"|test|fixture|snapshot|legacy|hidden|secret|sensitive) )*(?:files?|code|anything|everything|folders?|director(?:y|ies)|lockfiles?|migrations?|tests?|fixtures?|snapshots?|assets?"
    r"|lock files?|a file|changes)?"
)


def _files(
    text: str, does: frozenset[Action], reading: Reading, *, hand: bool = False, named: bool = False
) -> Paths | None:
    """Read the object of a verb about files: ``files in ⟦0⟧ or ⟦1⟧``, ``the ⟦0⟧ directory``."""
    found = re.fullmatch(
        rf"(?P<noun>{_NOUN})\s*(?P<in>(?:that (?:is|are) )?(?:in|under|inside|within|inside of|below|to|into|from|on|matching|named|called|at|with the extension)?)\s*"
        rf"(?:the |any |our |your )?(?P<after>files? |folders? |director(?:y|ies) )?(?P<list>{LIST})(?P<kind> (?:director(?:y|ies)|folders?|files?|trees?|packages?|modules?|file or its contents"
        r"|director(?:y|ies) or (?:its|their) contents|or (?:its|their) contents|and (?:its|their) contents|and everything in it|file itself))*"
        rf"(?:,? (?:except|except for|excluding|other than) (?:for )?(?:the |files in |anything in |those in |in )?(?P<but>{LIST})(?P<butkind> (?:files?|folders?|director(?:y|ies)))?)?",
        text,
    )
    if found is None:
        return None
    noun = found["noun"].strip()
    inside = found["in"].strip()
    if (
        noun
        and not inside
        and not re.search(
            r"\b(files?|folders?|director(?:y|ies)|the|lockfiles?|migrations?|config(?:uration)?|any|all|our)$",
            noun,
        )
    ):
        return None
    if inside in ("to", "into", "from", "on") and not (
        noun and noun.split()[-1] in ("files", "file", "changes", "code", "anything")
    ):
        return None
    if re.search(r"\bnew\b", noun):
        if "create" not in does:
            return None
        does = frozenset[Action]({"create"})
    if re.search(r"\b(existing|applied|committed)\b", noun):
        does = does - {"create"}
    if re.search(r"\b(code|tests?|changes)$", noun) and not inside:
        return None
    called = named or bool(
        found["kind"]
        or found["after"]
        or re.search(r"\b(files?|folders?|director(?:y|ies)) ?$", noun)
        or inside in ("in", "under", "inside", "within")
    )
    return reading.paths(found["list"], does, hand=hand, named=called, but=found["but"] or "")
