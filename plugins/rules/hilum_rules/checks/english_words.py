"""What English sentences say in plain words: actions that name nothing, forms of an answer,
contexts.
"""

# Expressions are read whole.
# ruff: noqa: E501

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import (
    READS,
    WRITES,
    Answers,
    Ban,
    Commands,
    Contexts,
    Hosts,
    Paths,
    Tools,
)
from hilum_rules.checks.objects import Reading, split

ANCHOR = r"⟦\d+⟧"
LIST = rf"{ANCHOR}(?:\s*(?:,\s*(?:and|or)?|and|or|nor|/|&|and/or)\s*{ANCHOR})*"
AGENT = r"(?:(?:you|agents?|the (?:agent|assistant|model|ai)|ai(?: agents?| assistants?)?|assistants?|claude|we)\s+)?"
NOT = (
    rf"{AGENT}(?:(?:must|shall|may|should|are|is)\s+)?(?:never(?: ever)?|not(?: ever)?|do not(?: ever)?|don't(?: ever)?|cannot"
    r"|can not|can't|mustn't|not allowed to|not permitted to|forbidden to|never allowed to|forbidden from|prohibited from)\s+(?:attempt to |try to )?"
)

_PLACE = r"(?:the |this |your |our |the user's )?(?:current )?(?:workspace|project(?: (?:directory|folder|root))?|repo(?:sitory)?(?: root)?|working (?:directory|folder|tree))"
_OUT = rf"outside(?: of)? {_PLACE}"
_FILES = r"(?:any |the |all |existing |other )*(?:files?(?: (?:or|and) (?:folders|directories))?|anything|folders|directories)"

# --- actions --------------------------------------------------------------------------------------


def plain(text: str) -> Ban | None:
    """Read an action in words that name nothing: what they mean is in the vocabulary."""
    return next((ban for pattern, ban in _words() if pattern.fullmatch(text)), None)


@cache
def _words() -> tuple[tuple[re.Pattern[str], Ban], ...]:
    what = r"(?: (?:the |any |your |my |all )*(?:changes?|code|anything|work|files|modifications|it|them))?"
    remote = r"(?: to (?:the |a |any )?(?:remotes?|origin|remote repositor(?:y|ies)|upstream|github|gitlab|git|repo|repository|server))?"
    network = r"(?:access|use|connect to|reach|make (?:any )?calls to) (?:the )?(?:network|internet|web)|make (?:any )?(?:external |outbound |http |network )+(?:requests|calls|connections)|go online"
    table: list[tuple[str, Ban]] = [
        (
            rf"(?:git )?commit{what}{remote}|(?:create|make) (?:any |a |new )*(?:git )?commits?|run git commit",
            Commands(v.GIT_COMMIT),
        ),
        (
            rf"(?:git )?push{what}{remote}|push (?:commits|branches){remote}|run git push|git push",
            Commands(v.GIT_PUSH),
        ),
        (
            r"force[- ]push(?:es)?|use force[- ]push|git push --force|push with force|run git push --force",
            Commands(v.FORCE_PUSH),
        ),
        (r"amend (?:any |existing |previous |published |the last )*commits?", Commands(v.AMEND)),
        (rf"(?:git )?stage{what}|git add", Commands(v.STAGE)),
        (
            r"(?:create|open|submit) (?:any |a |new )*(?:pull requests?|prs?|merge requests?)",
            Commands(v.PULL_REQUEST),
        ),
        (
            r"(?:install|add|introduce|add or upgrade|add or update) (?:any |new |additional |third-party |extra |external |unapproved |a )*(?:packages?|dependenc(?:y|ies)|libraries|modules|software)",
            Commands(v.INSTALL, new=True),
        ),
        (
            r"publish(?: (?:any |the |a )*(?:packages?|releases?))?(?: to (?:npm|pypi|crates\.io|the registry))?",
            Commands(v.PUBLISH),
        ),
        (
            r"use sudo|run (?:anything |commands )?(?:with|using) sudo|run (?:commands |anything )?as root|use root privileges",
            Commands((("sudo",), ("doas",), ("su",), ("pkexec",))),
        ),
        (
            r"(?:run|execute|use|perform) (?:any )?destructive (?:commands?|operations?|actions?)",
            Commands(v.DESTRUCTIVE),
        ),
        (
            r"(?:run|execute|use|perform) (?:any )?destructive git (?:commands?|operations?|actions?)",
            Commands(v.DESTRUCTIVE_GIT),
        ),
        (
            r"rebase(?: (?:commits|branches|published commits))?",
            Commands((("git", "rebase"), ("git", "pull", "--rebase"), ("git", "pull", "-r"))),
        ),
        (
            r"(?:delete|remove) (?:any |the |existing |user )*files?(?: (?:or|and) (?:folders|directories))?",
            Paths(("**",), frozenset({"delete"})),
        ),
        (
            rf"(?:delete|remove|delete or (?:move|modify)) {_FILES} {_OUT}",
            Paths((), frozenset({"delete"}), outside=True),
        ),
        (
            rf"(?:write|edit|modify|change|create|touch|write to|make changes to|create or modify|write or delete|modify or delete) (?:{_FILES} )?{_OUT}",
            Paths((), WRITES, outside=True),
        ),
        (
            rf"(?:access|read or write|touch or read) (?:{_FILES} )?{_OUT}",
            Paths((), READS | WRITES, outside=True),
        ),
        (rf"read (?:{_FILES} )?{_OUT}", Paths((), READS, outside=True)),
        (network, Hosts(("*",))),
        (
            r"(?:run|execute|use) (?:any )?(?:shell|terminal|bash|command[- ]line) commands?|use the (?:shell|terminal)",
            Tools(risk="execute"),
        ),
        (r"send (?:any |out )?e-?mails?", Tools(v.EMAIL_TOOLS)),
        (
            r"(?:(?:send|post|publish) )?(?:any )?(?:tweets?|public posts|posts publicly)|tweet",
            Tools(v.TWEET_TOOLS),
        ),
    ]
    return tuple((re.compile(pattern), ban) for pattern, ban in table)


# --- answers and contexts -------------------------------------------------------------------------

_ANSWER = r"(?:(?:your|the|all|any|final|every|each) )*(?:answers?|responses?|repl(?:y|ies)|final (?:answer|message)s?|messages to the user)"
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}


def answers(head: str, reading: Reading) -> Answers | None:
    """Read what form an answer must not take."""
    for pattern, form in _answer_forms():
        found = pattern.fullmatch(head)
        if found is None:
            continue
        groups = found.groupdict()
        if groups.get("n"):
            if groups["n"][0].isdigit():
                many = int(groups["n"].replace(",", ""))
            else:
                many = _NUMBERS[groups["n"]]
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
    no = rf"(?:{NOT}|no )"
    phrase = r"(?:the )?(?:words?|phrases?|text|sentence|string|line|signature|marker|footer)? ?"
    table = [
        (rf"{no}(?:use |include |put |add |write |have )?(?:any )?emojis? in {_ANSWER}", "emoji"),
        (
            rf"{_ANSWER} (?:must|may|should|shall) (?:not|never) (?:contain|include|use|have) (?:any )?emojis?",
            "emoji",
        ),
        (rf"{no}end {_ANSWER} with (?:a )?questions?", "question"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) end with a question", "question"),
        (rf"{no}(?:begin|start|open) {_ANSWER} with {phrase}(?P<a>{ANCHOR})", "starts"),
        (
            rf"{_ANSWER} (?:must|may|should) (?:not|never) (?:begin|start) with {phrase}(?P<a>{ANCHOR})",
            "starts",
        ),
        (rf"{no}end {_ANSWER} with {phrase}(?P<a>{ANCHOR})", "ends"),
        (rf"{_ANSWER} (?:must|may|should) (?:not|never) end with {phrase}(?P<a>{ANCHOR})", "ends"),
        (
            rf"{no}(?:use|say|write|include|mention) {phrase}(?P<a>{ANCHOR}) in {_ANSWER}",
            "contains",
        ),
        (
            rf"{_ANSWER} (?:must|may|should) (?:not|never) (?:contain|include|mention) {phrase}(?P<a>{ANCHOR})",
            "contains",
        ),
        (rf"(?:always )?end {_ANSWER} with {phrase}(?P<a>{ANCHOR})", "lacks_end"),
        (rf"{_ANSWER} must (?:always )?end with {phrase}(?P<a>{ANCHOR})", "lacks_end"),
        (rf"(?:always )?(?:begin|start) {_ANSWER} with {phrase}(?P<a>{ANCHOR})", "lacks_start"),
        (
            rf"{_ANSWER} must (?:always )?(?:begin|start) with {phrase}(?P<a>{ANCHOR})",
            "lacks_start",
        ),
        (rf"{_ANSWER} must (?:always )?(?:contain|include) {phrase}(?P<a>{ANCHOR})", "lacks"),
        (
            rf"{_ANSWER} must (?:not be (?:longer|more) than|not exceed|never exceed|be (?:at most|no longer than|no more than|under|within|shorter than)) {number}(?: long)?",
            "longer",
        ),
        (
            rf"(?:keep|limit) {_ANSWER} (?:to|under|below|within|to at most|to a maximum of) {number}",
            "longer",
        ),
        (rf"{no}(?:give|write|send) {_ANSWER} (?:of more than|longer than) {number}", "longer"),
    ]
    return tuple((re.compile(pattern), form) for pattern, form in table)


_SHARED = r"(?:shared|group|public|headless|unattended)(?:(?:,? or |,? and |/|, )(?:shared|group|public|headless|unattended|main))*"


def contexts(head: str, reading: Reading) -> Contexts | None:
    """Read what is not to be loaded in a kind of session."""
    memory = rf"(?P<what>{LIST}|(?:the |your )?(?:long-term |longterm )?memory)"
    where = rf"(?:in|into|during|for) (?:any )?(?P<kinds>{_SHARED}|main) (?:sessions?|contexts?|chats?|runs?|conversations?)"
    no = re.fullmatch(
        rf"(?:{NOT})(?:load|read|include|use|inject|open|share) {memory} {where}", head
    ) or re.fullmatch(
        rf"{memory} (?:must|may|should|shall) (?:not|never) be (?:loaded|read|included|used|injected) {where}",
        head,
    )
    if no:
        kinds = tuple(dict.fromkeys(kind for word in split(no["kinds"]) for kind in v.KINDS[word]))
        return reading.contexts(no["what"], kinds)
    only = re.fullmatch(
        rf"(?:only load {memory} (?:in|during) (?:the )?main sessions?|{memory.replace('what', 'what2')} (?:must be |is |may be |should be )?(?:only loaded|loaded only|only read) (?:in|during) (?:the )?main sessions?)",
        head,
    )
    if only:
        return reading.contexts(only["what"] or only["what2"], ("shared", "headless"))
    return None
