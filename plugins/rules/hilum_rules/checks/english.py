"""Sentences in English: what they forbid, or want to be asked for. A sentence is taken only if all of it is understood."""

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import READS, WRITES, Action, Answers, Ban, Commands, Contexts, Effect, Hosts, Paths, Tools
from hilum_rules.checks.objects import Reading, joined, split

_A = r"⟦\d+⟧"
_LIST = rf"{_A}(?:\s*(?:,\s*(?:and|or)?|and|or|nor|/|&|and/or)\s*{_A})*"
_AGENT = r"(?:(?:you|agents?|the (?:agent|assistant|model|ai)|ai(?: agents?| assistants?)?|assistants?|claude|we)\s+)?"
_NOT = (
    rf"{_AGENT}(?:(?:must|shall|may|should|are|is)\s+)?(?:never(?: ever)?|not(?: ever)?|do not(?: ever)?|don't(?: ever)?|cannot"
    r"|can not|can't|mustn't|not allowed to|not permitted to|forbidden to|never allowed to|forbidden from|prohibited from)\s+(?:attempt to |try to )?"
)
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
    rf"|confirm(?:s|ed)?|authori[sz]ed?)(?:\s+(?:explicitly|to|you|you to|to do so|you to do so|by {_USER}|for it|it|so|otherwise))*"
)
_OWN = r"\s+(?:automatically|on your own|proactively|on your own initiative|unprompted)"

_VERBS: dict[str, frozenset[Action]] = {
    **dict.fromkeys(
        "edit modify change alter touch update overwrite rewrite tamper-with hand-edit".split(), WRITES
    ),
    **{"write to": WRITES, "write into": WRITES, "make changes to": WRITES, "make edits to": WRITES, "make any changes to": WRITES},
    **{"write": frozenset({"create", "change"}), "save": frozenset({"create", "change"})},
    **dict.fromkeys(("delete", "remove", "erase", "rename", "move", "unlink"), frozenset[Action]({"delete"})),
    **dict.fromkeys(("create", "add", "place", "put"), frozenset[Action]({"create"})),
    **dict.fromkeys(("read", "open", "view", "cat", "look at", "inspect", "read from"), READS),
    "access": READS | WRITES,
}
_GERUNDS = {
    "running": "run", "putting": "put", "committing": "commit", "pushing": "push", "deleting": "delete", "removing": "remove",
    "editing": "edit", "modifying": "modify", "changing": "change", "altering": "alter", "touching": "touch", "updating": "update",
    "overwriting": "overwrite", "rewriting": "rewrite", "writing": "write", "renaming": "rename", "moving": "move",
    "creating": "create", "adding": "add", "reading": "read", "opening": "open", "viewing": "view", "accessing": "access",
    "executing": "execute", "using": "use", "invoking": "invoke", "calling": "call", "installing": "install", "making": "make",
    "force-pushing": "force-push", "amending": "amend", "staging": "stage", "publishing": "publish", "sending": "send",
    "contacting": "contact", "connecting": "connect", "fetching": "fetch", "visiting": "visit", "downloading": "download",
    "loading": "load", "performing": "perform", "taking": "take", "opening": "open", "issuing": "issue", "posting": "post",
    "erasing": "erase",
}  # fmt: skip
_PARTICIPLES = {
    "edited": "edit", "modified": "modify", "changed": "change", "altered": "alter", "touched": "touch", "updated": "update",
    "overwritten": "overwrite", "rewritten": "rewrite", "written to": "write to", "deleted": "delete", "removed": "remove",
    "renamed": "rename", "moved": "move", "read": "read", "opened": "open", "accessed": "access", "run": "run",
    "executed": "execute", "used": "use", "invoked": "invoke", "called": "call", "contacted": "contact", "visited": "visit",
}  # fmt: skip

_PLACE = r"(?:the |this |your |our |the user's )?(?:current )?(?:workspace|project(?: (?:directory|folder|root))?|repo(?:sitory)?(?: root)?|working (?:directory|folder|tree))"
_OUT = rf"outside(?: of)? {_PLACE}"
_FILES = r"(?:any |the |all |existing |other )*(?:files?(?: (?:or|and) (?:folders|directories))?|anything|folders|directories)"


def read(reading: Reading) -> tuple[Effect, tuple[Ban, ...]] | None:
    """Read the head of a sentence: its effect and what it bans, or nothing."""
    head = reading.phrase.head
    if found := _frames()["ask"].fullmatch(head):
        bans = actions(found["act"], reading)
        return ("ask", bans) if bans else None
    if found := _frames()["needs"].fullmatch(head):
        bans = actions(found["act"], reading)
        return ("ask", bans) if bans else None
    if answer := _answers(head, reading):
        return "deny", (answer,)
    if context := _contexts(head, reading):
        return "deny", (context,)
    if found := _frames()["passive"].fullmatch(head):
        return _passive(found, reading)
    if found := _frames()["closed"].fullmatch(head):
        bans = _files(found["paths"], WRITES, reading, named=True)
        return ("deny", (bans,)) if bans else None
    if found := _frames()["not"].fullmatch(head):
        act = found["act"]
        effect: Effect = "deny"
        for ending in ("without", "unless", "own"):
            if cut := _frames()[ending].search(act):
                act, effect = act[: cut.start()], "ask"
                break
        bans = actions(act, reading)
        return (effect, bans) if bans else None
    return None


@cache
def _frames() -> dict[str, re.Pattern[str]]:
    ask = (
        rf"(?:{_AGENT}(?:must |should |shall )?)?(?:always |please )*(?:ask(?: (?:{_USER}))?(?: for (?:explicit )?(?:permission|confirmation|approval))?(?: first)?"
        rf"|confirm(?: with {_USER})?|check with {_USER}|(?:get|obtain|request|seek|require) (?:(?:explicit|{_USER}|user|human|prior|written) )*"
        rf"(?:approval|permission|confirmation|consent)(?: from {_USER})?)"
    )
    needs = r"(?:always )?(?:requires?|needs?) (?:(?:explicit|user|human|prior|the user's|my|your) )*(?:approval|permission|confirmation|consent)"
    return {
        "ask": re.compile(rf"{ask},? before (?:you )?(?P<act>.+?){_ENDS}"),
        "needs": re.compile(rf"(?P<act>.+?) {needs}(?: first| from {_USER})?"),
        "passive": re.compile(
            rf"(?P<lead>.*?)(?P<paths>{_LIST})(?P<rest>.*?) (?:(?:must|may|should|shall|can) (?:never|not)|cannot|can't|is never to|are never to"
            rf"|is not to|are not to) be (?:manually |directly )?(?P<verb>[a-z ,]+?)(?P<hand> (?:by hand|manually|directly))?{_ENDS}(?P<yes>{_WITHOUT}|{_UNLESS})?"
        ),
        "closed": re.compile(
            rf"(?P<paths>.*{_A}.*?) (?:is|are) (?:strictly |completely |always |considered )?(?:read-only|read only|off-limits|off limits|immutable|frozen|not to be touched){_ENDS}"
        ),
        "not": re.compile(rf"(?:{_UNDER}|{_IT}|{_NOT}|no |forbidden |prohibited )(?P<act>.+?){_ENDS}"),
        "without": re.compile(_WITHOUT + "$"),
        "unless": re.compile(_UNLESS + "$"),
        "own": re.compile(_OWN + "$"),
    }


def _passive(found: re.Match[str], reading: Reading) -> tuple[Effect, tuple[Ban, ...]] | None:
    verbs = [_PARTICIPLES.get(each) for each in split(found["verb"])]
    if None in verbs or not verbs:
        return None
    hand = " by hand" if found["hand"] or re.search(r" be (?:manually|directly) ", found[0]) else ""
    text = f"{found['lead']}{found['paths']}{found['rest']}".strip()
    bans = actions(f"{' or '.join(str(verb) for verb in verbs)} {text}{hand}", reading)
    return ("ask" if found["yes"] else "deny", bans) if bans else None


# --- what is done -------------------------------------------------------------------------------------------------------


def actions(text: str, reading: Reading) -> tuple[Ban, ...]:
    """Read what is done: one thing, or several that are joined; nothing if a part of it is not understood."""
    text = text.strip(" ,")
    if one := _action(text, reading):
        return (one,)
    parts = split(text)
    if len(parts) < 2:
        return ()
    found = [_action(part, reading) for part in parts]
    return joined([ban for ban in found if ban is not None]) if None not in found else ()


def _action(text: str, reading: Reading) -> Ban | None:
    words = text.split(" ")
    words[0] = _GERUNDS.get(words[0], words[0])
    text = re.sub(r"(?<=[ ,/])(\w+ing)\b", lambda m: _GERUNDS.get(m[1], m[1]), " ".join(words))
    if plain := _plain(text):
        return plain
    if found := _acts()["command"].fullmatch(text):
        used = "use" in split(found["verb"])
        if found["what"] == "tool" or found["that"]:
            return reading.tools(found["list"])
        return (reading.tools(found["list"], known=True) if used else None) or reading.commands(found["list"], used=used)
    if found := _acts()["bare"].fullmatch(text):
        return reading.commands(found["list"], used=True, many=True)
    if found := _acts()["tool"].fullmatch(text):
        return reading.tools(found["list"])
    if found := _acts()["host"].fullmatch(text):
        return reading.hosts(found["list"])
    if found := _acts()["files"].fullmatch(text):
        verbs = [verb for verb in split(found["verb"])]
        if any(verb not in _VERBS for verb in verbs):
            return None
        does = frozenset[Action]().union(*(_VERBS[verb] for verb in verbs))
        if "write" in verbs and not re.match(r"(?:any |new )*(?:files|code|anything)? ?(?:to|in|into|inside|under) |⟦", found["what"]):
            return None
        hand = bool(found["hand"] or found["hand2"]) or "hand-edit" in verbs
        return _files(found["what"], does, reading, hand=hand)
    return None


@cache
def _acts() -> dict[str, re.Pattern[str]]:
    verb = "|".join(sorted(_VERBS, key=len, reverse=True))
    verbs = rf"(?:{verb})(?:(?:,? or |,? and |, |/|,? nor )(?:{verb}))*"
    return {
        "command": re.compile(
            r"(?P<verb>(?:run|execute|invoke|issue|use|call)(?: or (?:run|execute|invoke|use))?)"
            rf" (?:the |any )?(?P<list>{_LIST})(?P<what> commands?| tools?)?(?P<that> tool)?(?: directly| manually)?"
        ),
        "bare": re.compile(rf"(?P<list>{_LIST})"),
        "tool": re.compile(rf"(?:use|call|invoke) (?:the )?(?:tools? (?P<list>{_LIST})|(?P<list2>x)x)"),
        "host": re.compile(
            r"(?:contact|access|visit|call|connect to|fetch(?: anything| data)? from|download(?: anything| files)? from|talk to|reach"
            r"|make (?:any )?(?:requests|calls|http requests|api calls) to|send (?:any )?(?:data|requests|anything|code|traffic) to|browse to|open connections to)"
            rf" (?:the )?(?:hosts?|domains?|servers?|sites?|urls?)? ?(?P<list>{_LIST})"
        ),
        "files": re.compile(
            rf"(?P<hand>(?:manually|directly) )?(?P<verb>{verbs}) (?P<what>.*{_A}.*?)(?P<hand2> (?:by hand|manually|directly))?"
        ),
    }


_NOUN = (
    r"(?:the |any |all |any of the |our |these |your |every |everything |anything |a |single )*(?:contents? of |content of |code in |code under )?"
    r"(?:(?:auto-?generated|generated|existing|applied|committed|vendored|compiled|built|new|source|config(?:uration)?|lock|lock-?|environment|migration"
    r"|test|fixture|snapshot|legacy|hidden|secret|sensitive) )*(?:files?|code|anything|everything|folders?|director(?:y|ies)|lockfiles?|migrations?|tests?|fixtures?|snapshots?|assets?"
    r"|lock files?|a file|changes)?"
)


def _files(text: str, does: frozenset[Action], reading: Reading, *, hand: bool = False, named: bool = False) -> Paths | None:
    """Read the object of a verb about files: ``files in ⟦0⟧ or ⟦1⟧``, ``the ⟦0⟧ directory``."""
    found = re.fullmatch(
        rf"(?P<noun>{_NOUN})\s*(?P<in>(?:that (?:is|are) )?(?:in|under|inside|within|inside of|below|to|into|from|on|matching|named|called|at|with the extension)?)\s*"
        rf"(?:the |any |our |your )?(?P<after>files? |folders? |director(?:y|ies) )?(?P<list>{_LIST})(?P<kind> (?:director(?:y|ies)|folders?|files?|trees?|packages?|modules?|file or its contents"
        r"|director(?:y|ies) or (?:its|their) contents|or (?:its|their) contents|and (?:its|their) contents|and everything in it|file itself))*"
        rf"(?:,? (?:except|except for|excluding|other than) (?:for )?(?:the |files in |anything in |those in |in )?(?P<but>{_LIST})(?P<butkind> (?:files?|folders?|director(?:y|ies)))?)?",
        text,
    )
    if found is None:
        return None
    noun, inside = found["noun"].strip(), found["in"].strip()
    if noun and not inside and not re.search(r"\b(files?|folders?|director(?:y|ies)|the|lockfiles?|migrations?|config(?:uration)?|any|all|our)$", noun):
        return None
    if inside in ("to", "into", "from", "on") and not (noun and noun.split()[-1] in ("files", "file", "changes", "code", "anything")):
        return None
    if re.search(r"\bnew\b", noun):
        if "create" not in does:
            return None
        does = frozenset[Action]({"create"})
    if re.search(r"\b(existing|applied|committed)\b", noun):
        does = does - {"create"}
    if re.search(r"\b(code|tests?|changes)$", noun) and not inside:
        return None
    called = named or bool(found["kind"] or found["after"] or re.search(r"\b(files?|folders?|director(?:y|ies)) ?$", noun) or inside in ("in", "under", "inside", "within"))
    return reading.paths(found["list"], does, hand=hand, named=called, but=found["but"] or "")


# --- plain words --------------------------------------------------------------------------------------------------------


def _plain(text: str) -> Ban | None:
    """Read an action in words that name nothing: what they mean is in the vocabulary."""
    return next((ban for pattern, ban in _words() if pattern.fullmatch(text)), None)


@cache
def _words() -> tuple[tuple[re.Pattern[str], Ban], ...]:
    what = r"(?: (?:the |any |your |my |all )*(?:changes?|code|anything|work|files|modifications|it|them))?"
    remote = r"(?: to (?:the |a |any )?(?:remotes?|origin|remote repositor(?:y|ies)|upstream|github|gitlab|git|repo|repository|server))?"
    network = r"(?:access|use|connect to|reach|make (?:any )?calls to) (?:the )?(?:network|internet|web)|make (?:any )?(?:external |outbound |http |network )+(?:requests|calls|connections)|go online"
    table: list[tuple[str, Ban]] = [
        (rf"(?:git )?commit{what}{remote}|(?:create|make) (?:any |a |new )*(?:git )?commits?|run git commit", Commands(v.GIT_COMMIT)),
        (rf"(?:git )?push{what}{remote}|push (?:commits|branches){remote}|run git push|git push", Commands(v.GIT_PUSH)),
        (r"force[- ]push(?:es)?|use force[- ]push|git push --force|push with force|run git push --force", Commands(v.FORCE_PUSH)),
        (r"amend (?:any |existing |previous |published |the last )*commits?", Commands(v.AMEND)),
        (rf"(?:git )?stage{what}|git add", Commands(v.STAGE)),
        (r"(?:create|open|submit) (?:any |a |new )*(?:pull requests?|prs?|merge requests?)", Commands(v.PULL_REQUEST)),
        (
            r"install (?:any |new |additional |third-party |extra |external |unapproved |a )*(?:packages?|dependenc(?:y|ies)|libraries|modules|software)",
            Commands(v.INSTALL, new=True),
        ),
        (r"publish(?: (?:any |the |a )*(?:packages?|releases?))?(?: to (?:npm|pypi|crates\.io|the registry))?", Commands(v.PUBLISH)),
        (r"use sudo|run (?:anything |commands )?(?:with|using) sudo|run (?:commands |anything )?as root|use root privileges", Commands((("sudo",), ("doas",), ("su",), ("pkexec",)))),
        (r"(?:run|execute|use|perform) (?:any )?destructive (?:commands?|operations?|actions?)", Commands(v.DESTRUCTIVE)),
        (rf"(?:delete|remove) (?:any |the |existing |user )*files?(?: (?:or|and) (?:folders|directories))?", Paths(("**",), frozenset({"delete"}))),
        (rf"(?:delete|remove|delete or (?:move|modify)) {_FILES} {_OUT}", Paths((), frozenset({"delete"}), outside=True)),
        (
            rf"(?:write|edit|modify|change|create|touch|write to|make changes to|create or modify|write or delete|modify or delete) (?:{_FILES} )?{_OUT}",
            Paths((), WRITES, outside=True),
        ),
        (rf"(?:access|read or write|touch or read) (?:{_FILES} )?{_OUT}", Paths((), READS | WRITES, outside=True)),
        (rf"read (?:{_FILES} )?{_OUT}", Paths((), READS, outside=True)),
        (network, Hosts(("*",))),
        (r"(?:run|execute|use) (?:any )?(?:shell|terminal|bash|command[- ]line) commands?|use the (?:shell|terminal)", Tools(risk="execute")),
        (r"send (?:any |out )?e-?mails?", Tools(v.EMAIL_TOOLS)),
        (r"(?:send|post|publish) (?:any )?(?:tweets?|public posts|posts publicly)|tweet", Tools(v.TWEET_TOOLS)),
        (r"(?:create|edit|modify|write|change)(?: or (?:modify|edit|delete|create|change))? (?:any )?files", Paths(("**",), WRITES)),
    ]  # fmt: skip
    return tuple((re.compile(pattern), ban) for pattern, ban in table)


# --- answers and contexts -----------------------------------------------------------------------------------------------

_ANSWER = r"(?:(?:your|the|all|any|final|every|each) )*(?:answers?|responses?|repl(?:y|ies)|final (?:answer|message)s?|messages to the user)"
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}


def _answers(head: str, reading: Reading) -> Answers | None:
    for pattern, form in _answer_forms():
        if (found := pattern.fullmatch(head)) is None:
            continue
        groups = found.groupdict()
        if groups.get("n"):
            many = int(groups["n"].replace(",", "")) if groups["n"][0].isdigit() else _NUMBERS[groups["n"]]
            unit = groups["unit"].rstrip("s") + "s"
            return Answers("longer", most=many, unit=unit)  # type: ignore[arg-type]
        text = reading.one(groups["a"]) if groups.get("a") else ""
        if groups.get("a") and not text:
            return None
        return Answers(form, text)  # type: ignore[arg-type]
    return None


@cache
def _answer_forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    number = r"(?P<n>\d[\d,]*|one|two|three|four|five|six|ten) (?P<unit>words?|characters?|lines?|sentences?|paragraphs?)"
    no = rf"(?:{_NOT}|no )"
    phrase = r"(?:the )?(?:words?|phrases?|text|sentence|string|line|signature|marker|footer)? ?"
    table = [
        (rf"{no}(?:use |include |put |add |write |have )?(?:any )?emojis? in {_ANSWER}", "emoji"),
        (rf"{_ANSWER} (?:must|may|should|shall) (?:not|never) (?:contain|include|use|have) (?:any )?emojis?", "emoji"),
        (rf"{no}end {_ANSWER} with (?:a )?questions?", "question"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) end with a question", "question"),
        (rf"{no}(?:begin|start|open) {_ANSWER} with {phrase}(?P<a>{_A})", "starts"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) (?:begin|start) with {phrase}(?P<a>{_A})", "starts"),
        (rf"{no}end {_ANSWER} with {phrase}(?P<a>{_A})", "ends"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) end with {phrase}(?P<a>{_A})", "ends"),
        (rf"{no}(?:use|say|write|include|mention) {phrase}(?P<a>{_A}) in {_ANSWER}", "contains"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) (?:contain|include|mention) {phrase}(?P<a>{_A})", "contains"),
        (rf"(?:always )?end {_ANSWER} with {phrase}(?P<a>{_A})", "lacks_end"),
        (rf"{_ANSWER} must (?:always )?end with {phrase}(?P<a>{_A})", "lacks_end"),
        (rf"(?:always )?(?:begin|start) {_ANSWER} with {phrase}(?P<a>{_A})", "lacks_start"),
        (rf"{_ANSWER} must (?:always )?(?:begin|start) with {phrase}(?P<a>{_A})", "lacks_start"),
        (rf"{_ANSWER} must (?:always )?(?:contain|include) {phrase}(?P<a>{_A})", "lacks"),
        (rf"{_ANSWER} must (?:not be (?:longer|more) than|not exceed|never exceed|be (?:at most|no longer than|no more than|under|within|shorter than)) {number}(?: long)?", "longer"),
        (rf"(?:keep|limit) {_ANSWER} (?:to|under|below|within|to at most|to a maximum of) {number}", "longer"),
        (rf"{no}(?:give|write|send) {_ANSWER} (?:of more than|longer than) {number}", "longer"),
    ]  # fmt: skip
    return tuple((re.compile(pattern), form) for pattern, form in table)


_SHARED = r"(?:shared|group|public|headless|unattended)(?:(?:,? or |,? and |/|, )(?:shared|group|public|headless|unattended|main))*"


def _contexts(head: str, reading: Reading) -> Contexts | None:
    memory = rf"(?P<what>{_LIST}|(?:the |your )?(?:long-term |longterm )?memory)"
    where = rf"(?:in|into|during|for) (?:any )?(?P<kinds>{_SHARED}|main) (?:sessions?|contexts?|chats?|runs?|conversations?)"
    no = re.fullmatch(rf"(?:{_NOT})(?:load|read|include|use|inject|open|share) {memory} {where}", head) or re.fullmatch(
        rf"{memory} (?:must|may|should|shall) (?:not|never) be (?:loaded|read|included|used|injected) {where}", head
    )
    if no:
        kinds = tuple(dict.fromkeys(kind for word in split(no["kinds"]) for kind in v.KINDS[word]))
        return reading.contexts(no["what"], kinds)
    only = re.fullmatch(
        rf"(?:only load {memory} (?:in|during) (?:the )?main sessions?|{memory.replace('what', 'what2')} (?:must be |is |may be |should be )?(?:only loaded|loaded only|only read) (?:in|during) (?:the )?main sessions?)",
        head,
    )
    return reading.contexts(only["what"] or only["what2"], ("shared", "headless")) if only else None
