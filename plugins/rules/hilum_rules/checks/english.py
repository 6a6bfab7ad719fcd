"""Parses English sentences that forbid actions or require the user's approval.

A sentence becomes a constraint only if hilum understands all of it.
"""

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.grammar import (
    ANCHOR,
    CompiledFrames,
    Frame,
    Meaning,
    actions_frame,
    answer_frames,
    branch_frame,
    command_frame,
    context_frames,
    denial,
    plain_constraints,
    read_bare_commands,
    read_each_action,
    read_hosts,
    read_other_paths,
)
from hilum_rules.checks.model import READS, WRITES, Action, Commands, Constraint, Effect, Paths
from hilum_rules.checks.named_objects import Sentence
from hilum_rules.checks.sentence import split_list

_LIST = rf"{ANCHOR}(?:\s*(?:,\s*(?:and|or)?|and|or|nor|/|&|and/or)\s*{ANCHOR})*"
_AGENT = (
    r"(?:(?:you|agents?|the (?:agent|assistant|model|ai)|ai(?: agents?| assistants?)?"
    r"|assistants?|claude|we)\s+)?"
)
_NOT = (
    rf"{_AGENT}(?:(?:must|shall|may|should|are|is)\s+)?"
    r"(?:never(?: ever)?|not(?: ever)?|do not(?: ever)?|don't(?: ever)?|cannot|can not|can't"
    r"|mustn't|not allowed to|not permitted to|forbidden to|never allowed to|forbidden from"
    r"|prohibited from)\s+(?:attempt to |try to )?"
)
_IT = (
    r"(?:it is |it's )?(?:strictly |absolutely |expressly )?"
    r"(?:forbidden|prohibited|not allowed|not permitted|never allowed)\s+to\s+"
)
_UNDER = (
    r"under no circumstances\s+(?:(?:should|may|must|shall|can)\s+)?"
    r"(?:you|the agent|agents|the assistant)?\s*"
)
_ENDS = (
    r"(?:\s+(?:ever|at all|for any reason|under any circumstances?|under any condition"
    r"|no matter what|in this (?:repo|repository|project|codebase)"
    r"|in the (?:repo|repository|project|codebase)|yourself))*"
)
_YES = (
    r"(?:permission|approval|confirmation|consent|authorization|go-ahead|sign-off|instructions?"
    r"|request|being asked|asking|confirming|checking)"
)
_USER = (
    r"(?:the )?(?:user(?:'s)?|human(?:'s)?|me|my|us|owner(?:'s)?|developer(?:'s)?"
    r"|maintainer(?:'s)?|your human)"
)
_WITHOUT = (
    r"\s+without\s+(?:first\s+)?(?:an?\s+|any\s+)?"
    rf"(?:(?:{_USER}|explicit|prior|express|written|user|human|clear)\s+)*{_YES}"
    rf"(?:\s+(?:to do so|first|from {_USER}|by {_USER}|with {_USER}|{_USER}"
    rf"|for (?:permission|confirmation|approval)|{_USER} first))*"
)
_REQUEST = (
    rf"\s+(?:(?:{_USER}|you(?:'re| are| have been| were)?|i|it is|it's|they)\s+)?"
    r"(?:(?:is|are|has|have|was|have been|been)\s+)?"
    r"(?:explicitly\s+|specifically\s+|expressly\s+|directly\s+)?"
    r"(?:ask(?:s|ed)?|request(?:s|ed)?|tell(?:s)?|told|instruct(?:s|ed)?|approve(?:s|d)?"
    r"|confirm(?:s|ed)?|authori[sz]ed?)"
    rf"(?:\s+(?:explicitly|to|you|you to|to do so|you to do so|by {_USER}|for it|it|so|otherwise"
    r"|a commit|one|this))*"
)
_UNLESS = rf",?\s+(?:unless|until){_REQUEST}"
_WHEN = rf",?\s+(?:when|if|after|once|unless|until){_REQUEST}"
_OWN = r"\s+(?:automatically|on your own|proactively|on your own initiative|unprompted)"
_ASK = (
    rf"(?:{_AGENT}(?:must |should |shall )?)?(?:always |please )*"
    rf"(?:ask(?: (?:{_USER}))?(?: for (?:explicit )?(?:permission|confirmation|approval))?"
    rf"(?: first)?|confirm(?: with {_USER})?|check with {_USER}"
    rf"|(?:get|obtain|request|seek|require) (?:(?:explicit|{_USER}|user|human|prior|written) )*"
    rf"(?:approval|permission|confirmation|consent)(?: from {_USER})?)"
)
_NEEDS = (
    r"(?:always )?(?:requires?|needs?) "
    r"(?:(?:explicit|user|human|prior|the user's|my|your) )*"
    r"(?:approval|permission|confirmation|consent)"
)
_FOLDERS = r"(?: (?:director(?:y|ies)|folders?))?"

_VERBS: dict[str, frozenset[Action]] = {
    **dict.fromkeys(
        (
            *"edit modify change alter touch update overwrite rewrite hand-edit".split(),
            "write to",
            "write into",
            "make changes to",
            "make edits to",
            "make any changes to",
        ),
        WRITES,
    ),
    **dict.fromkeys(("write", "save"), frozenset[Action]({"create", "change"})),
    **dict.fromkeys("delete remove erase rename move unlink".split(), v.DELETES),
    **dict.fromkeys("create add place put".split(), v.CREATES),
    **dict.fromkeys(("read", "open", "view", "cat", "look at", "inspect", "read from"), READS),
    "access": READS | WRITES,
}
_GERUNDS = v.pairs(
    "running run|putting put|committing commit|pushing push|deleting delete|removing remove"
    "|editing edit|modifying modify|changing change|altering alter|touching touch|updating update"
    "|overwriting overwrite|rewriting rewrite|writing write|renaming rename|moving move"
    "|creating create|adding add|reading read|opening open|viewing view|accessing access"
    "|executing execute|using use|invoking invoke|calling call|installing install|making make"
    "|force-pushing force-push|amending amend|staging stage|publishing publish|sending send"
    "|contacting contact|connecting connect|fetching fetch|visiting visit|downloading download"
    "|loading load|performing perform|taking take|issuing issue|posting post|erasing erase"
)
_PARTICIPLES = v.pairs(
    "edited edit|modified modify|changed change|altered alter|touched touch|updated update"
    "|overwritten overwrite|rewritten rewrite|deleted delete|removed remove|renamed rename"
    "|moved move|read read|opened open|accessed access|run run|executed execute|used use"
    "|invoked invoke|called call|contacted contact|visited visit"
) | {"written to": "write to"}
# Nouns that follow "no", with the verbs that other sentences use instead.
_NOUN_VERBS = {
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
def _noun_pattern() -> re.Pattern[str]:
    return re.compile(rf"^({v.alternatives(_NOUN_VERBS)})(?= |$)")


# --- sentences ------------------------------------------------------------------------------------


def read_english(sentence: Sentence) -> Meaning | None:
    """Return what a sentence forbids or requires approval for, or ``None``."""
    return _sentence_frames().read(sentence.phrase.head, sentence)  # type: ignore[return-value]


@cache
def _sentence_frames() -> CompiledFrames:
    only_edit = (
        "(?:edit|modify|change|touch|write|write to|create|edit or create|create or modify)"
        " (?:files? )?(?:in|under|inside|within) (?:the )?"
    )
    passive = (
        rf"(?P<object>.*?{ANCHOR}.*?) (?:(?:must|may|should|shall|can) (?:never|not)|cannot|can't"
        r"|is never to|are never to|is not to|are not to) be"
        r"(?P<manual> (?:manually|directly))? (?P<verb>[a-z ,]+?)"
        rf"(?P<hand> (?:by hand|manually|directly))?{_ENDS}(?P<yes>{_WITHOUT}|{_UNLESS})?"
    )
    closed = (
        rf"(?P<object>.*{ANCHOR}.*?) (?:is|are) "
        r"(?:strictly |completely |always |considered )?(?:read-only|read only|off-limits"
        rf"|off limits|immutable|frozen|not to be touched){_ENDS}"
    )
    instead = (
        rf"{_AGENT}(?:(?:must|should) )?(?:always )?use {ANCHOR},? (?:and )?"
        rf"(?:never|not|do not use|don't use|never use) (?P<list>{_LIST})"
    )
    modal = rf"{_AGENT}(?:(?:must|should|may|can) )?"
    return CompiledFrames(
        [
            actions_frame(rf"{_ASK},? before (?:you )?(?P<act>.+?){_ENDS}", "ask", _read_actions),
            actions_frame(rf"(?P<act>.+?) {_NEEDS}(?: first| from {_USER})?", "ask", _read_actions),
            *answer_frames(_answers()),
            *context_frames(_contexts()),
            actions_frame(rf"{modal}only (?P<act>.+?){_WHEN}", "ask", _read_actions),
            actions_frame(rf"{modal}(?P<act>.+?) only{_WHEN}", "ask", _read_actions),
            Frame(instead, _read_instead),
            Frame(
                rf"{_AGENT}(?:(?:may|must|should|can|are allowed to) )?only (?:ever )?{only_edit}"
                rf"(?P<list>{_LIST}){_FOLDERS}",
                lambda found, sentence: denial(read_other_paths(found, sentence)),
            ),
            Frame(passive, _read_passive),
            Frame(
                closed,
                lambda found, sentence: denial(_read_files(found["object"], WRITES, sentence)),
            ),
            Frame(
                rf"(?P<start>{_UNDER}|{_IT}|{_NOT}|no |forbidden |prohibited )(?P<act>.+?){_ENDS}",
                _read_prohibition,
            ),
        ]
    )


def _read_instead(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read ``use ⟦0⟧, never ⟦1⟧``."""
    return denial(sentence.read_commands(found["list"], used=True))


def _read_passive(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read ``⟦0⟧ must never be edited by hand``."""
    participles = split_list(found["verb"])
    verbs = [_PARTICIPLES[each] for each in participles if each in _PARTICIPLES]
    # A verb that hilum does not know may change the meaning, so the sentence remains advice.
    if not verbs or len(verbs) < len(participles):
        return None
    by_hand = " by hand" if found["hand"] or found["manual"] else ""
    constraints = _read_actions(
        f"{' or '.join(verbs)} {found['object'].strip()}{by_hand}", sentence
    )
    effect: Effect = "ask" if found["yes"] else "deny"
    return (effect, constraints) if constraints else None


@cache
def _approval_endings() -> re.Pattern[str]:
    return re.compile(rf"(?:{_WITHOUT}|{_UNLESS}|{_OWN})$")


def _read_prohibition(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read ``never …``; mentioning approval at the end makes the action require approval."""
    action = found["act"]
    # "No commits" has a noun where the table of actions has a verb.
    if found[0].startswith("no "):
        action = _noun_pattern().sub(lambda noun: _NOUN_VERBS[noun[1]], action)
    effect: Effect = "deny"
    approval = _approval_endings().search(action)
    if approval:
        action = action[: approval.start()]
        effect = "ask"
    constraints = _read_actions(action, sentence)
    return (effect, constraints) if constraints else None


# --- actions --------------------------------------------------------------------------------------


def _read_actions(text: str, sentence: Sentence) -> tuple[Constraint, ...]:
    return read_each_action(text.strip(" ,"), sentence, _read_action)


def _read_action(text: str, sentence: Sentence) -> Constraint | None:
    # "Ask before pushing" contains a gerund, but the frames contain only infinitives.
    first, space, rest = text.partition(" ")
    text = f"{_GERUNDS.get(first, first)}{space}{rest}"
    text = re.sub(r"(?<=[ ,/])\w+ing\b", _replace_gerund, text)
    return _action_frames().read(text, sentence)  # type: ignore[return-value]


def _replace_gerund(found: re.Match[str]) -> str:
    return _GERUNDS.get(found[0], found[0])


@cache
def _action_frames() -> CompiledFrames:
    hooks = (
        r"(?:bypass|skip|circumvent) "
        r"(?:any |the |all |git |pre-commit |pre-push |commit |husky )*hooks?"
        rf"(?: (?:with|using|via|in|by passing) (?P<list>{_LIST}))?"
    )
    branch = (
        r"(?:directly )?(?P<verb>force[- ]push|push|commit|make commits)"
        r"(?: (?:any |your )?(?:changes?|code|commits|anything))?(?: directly| straight)?"
        rf" (?:to|on|onto|into) (?:the )?(?P<list>(?:{ANCHOR}|[a-z]+)"
        rf"(?:(?: or | and |/|, |,? or )(?:{ANCHOR}|[a-z]+))*)(?: branch(?:es)?)?(?: directly)?"
    )
    branch_verbs = {
        "push": v.GIT_PUSH,
        "force push": v.FORCE_PUSH,
        "force-push": v.FORCE_PUSH,
        "commit": v.GIT_COMMIT,
        "make commits": v.GIT_COMMIT,
    }
    outside = (
        r"(?:edit|modify|change|touch|write|create|write to|create or modify|edit or create"
        r"|modify or create) (?:(?:any )?(?:files?|anything|code) )?outside(?: of)? (?:the )?"
        rf"(?P<list>{_LIST}){_FOLDERS}"
    )
    run = (
        r"(?: or (?:run|execute|use))?) (?:the |any )?"
        rf"(?P<list>{_LIST})(?: commands?| tools?)?(?: directly| manually)?"
    )
    host = (
        r"(?:contact|access|visit|call|connect to|fetch(?: anything| data)? from"
        r"|download(?: anything| files)? from|talk to|reach"
        r"|make (?:any )?(?:requests|calls|http requests|api calls) to"
        r"|send (?:any )?(?:data|requests|anything|code|traffic) to|browse to"
        r"|open connections to) (?:the )?(?:hosts?|domains?|servers?|sites?|urls?)? ?"
        rf"(?P<list>{_LIST})"
    )
    verb = v.alternatives(_VERBS)
    files = (
        rf"(?P<manual>(?:manually|directly) )?"
        rf"(?P<verb>(?:{verb})(?:(?:,? or |,? and |, |/|,? nor )(?:{verb}))*)"
        rf" (?P<what>.*{ANCHOR}.*?)(?P<hand> (?:by hand|manually|directly))?"
    )
    return CompiledFrames(
        [
            *plain_constraints(_plain_actions(), outside=_outside()),
            Frame(hooks, _read_hooks),
            branch_frame(branch, branch_verbs),
            Frame(outside, read_other_paths),
            command_frame(rf"(?P<verb>(?:run|execute|issue|use){run}", ("use", "call")),
            # "Call" can also refer to hosts, so this frame is not final.
            command_frame(rf"(?P<verb>call{run}", ("use", "call"), is_final=False),
            Frame(rf"(?P<list>{_LIST})", read_bare_commands),
            Frame(
                rf"(?:use|call|invoke) (?:the )?tools? (?P<list>{_LIST})",
                lambda found, sentence: sentence.read_tools(found["list"]),
            ),
            Frame(host, read_hosts, is_final=False),
            Frame(files, _read_file_action),
        ]
    )


def _read_hooks(found: re.Match[str], sentence: Sentence) -> Commands | None:
    if found["list"]:
        return sentence.read_commands(found["list"], used=True)
    return Commands(v.SKIP_HOOKS)


def _plain_actions() -> dict[str, str]:
    """Return patterns for plain actions, keyed by the names in ``grammar.PLAIN_ACTIONS``."""
    what = (
        r"(?: (?:the |any |your |my |all )*"
        r"(?:changes?|code|anything|work|files|modifications|it|them))?"
    )
    remote = (
        r"(?: to (?:the |a |any )?(?:remotes?|origin|remote repositor(?:y|ies)|upstream|github"
        r"|gitlab|git|repo|repository|server))?"
    )
    return {
        "commit": rf"(?:git )?commit{what}{remote}"
        r"|(?:create|make) (?:any |a |new )*(?:git )?commits?|run git commit",
        "push": rf"(?:git )?push{what}{remote}|push (?:commits|branches){remote}"
        r"|run git push|git push",
        "force-push": r"force[- ]push(?:es)?|use force[- ]push|git push --force|push with force"
        r"|run git push --force",
        "amend": r"amend (?:any |existing |previous |published |the last )*commits?",
        "stage": rf"(?:git )?stage{what}|git add",
        "open a pull request": r"(?:create|open|submit) (?:any |a |new )*"
        r"(?:pull requests?|prs?|merge requests?)",
        "install": r"(?:install|add|introduce|add or upgrade|add or update) "
        r"(?:any |new |additional |third-party |extra |external |unapproved |a )*"
        r"(?:packages?|dependenc(?:y|ies)|libraries|modules|software)",
        "publish": r"publish(?: (?:any |the |a )*(?:packages?|releases?))?"
        r"(?: to (?:npm|pypi|crates\.io|the registry))?",
        "use root": r"use sudo|run (?:anything |commands )?(?:with|using) sudo"
        r"|run (?:commands |anything )?as root|use root privileges",
        "run destructive commands": r"(?:run|execute|use|perform) (?:any )?destructive "
        r"(?:commands?|operations?|actions?)",
        "run destructive Git commands": r"(?:run|execute|use|perform) (?:any )?destructive git "
        r"(?:commands?|operations?|actions?)",
        "rebase": r"rebase(?: (?:commits|branches|published commits))?",
        "delete files": r"(?:delete|remove) (?:any |the |existing |user )*files?"
        r"(?: (?:or|and) (?:folders|directories))?",
        "use the network": r"(?:access|use|connect to|reach|make (?:any )?calls to) (?:the )?"
        r"(?:network|internet|web)|make (?:any )?(?:external |outbound |http |network )+"
        r"(?:requests|calls|connections)|go online",
        "use the shell": r"(?:run|execute|use) (?:any )?"
        r"(?:shell|terminal|bash|command[- ]line) commands?|use the (?:shell|terminal)",
        "send email": r"send (?:any |out )?e-?mails?",
        "post in public": r"(?:(?:send|post|publish) )?(?:any )?"
        r"(?:tweets?|public posts|posts publicly)|tweet",
    }


def _outside() -> tuple[str, ...]:
    """Return patterns for deleting, writing, accessing and reading files outside the workspace."""
    files = (
        r"(?:any |the |all |existing |other )*"
        r"(?:files?(?: (?:or|and) (?:folders|directories))?|anything|folders|directories)"
    )
    outside = (
        r"outside(?: of)? (?:the |this |your |our |the user's )?(?:current )?"
        r"(?:workspace|project(?: (?:directory|folder|root))?|repo(?:sitory)?(?: root)?"
        r"|working (?:directory|folder|tree))"
    )
    writing = (
        r"(?:write|edit|modify|change|create|touch|write to|make changes to|create or modify"
        r"|write or delete|modify or delete)"
    )
    return (
        rf"(?:delete|remove|delete or (?:move|modify)) {files} {outside}",
        rf"{writing} (?:{files} )?{outside}",
        rf"(?:access|read or write|touch or read) (?:{files} )?{outside}",
        rf"read (?:{files} )?{outside}",
    )


# --- files ----------------------------------------------------------------------------------------


def _read_file_action(found: re.Match[str], sentence: Sentence) -> Paths | None:
    verbs = split_list(found["verb"])
    if any(verb not in _VERBS for verb in verbs):
        return None
    actions = frozenset[Action]().union(*(_VERBS[verb] for verb in verbs))
    target = re.match(
        r"(?:any |new )*(?:files|code|anything)? ?(?:to|in|into|inside|under) |⟦", found["what"]
    )
    if "write" in verbs and not target:
        return None
    by_hand = bool(found["manual"] or found["hand"] or "hand-edit" in verbs)
    if by_hand and "read" in actions:
        return None  # "never access `x` directly" is about code
    return _read_files(found["what"], actions, sentence, by_hand=by_hand)


@cache
def _files_pattern() -> re.Pattern[str]:
    folder = r"director(?:y|ies)"
    noun = (
        r"(?:the |any |all |any of the |our |these |your |every |everything |anything |a "
        r"|single )*(?:contents? of |content of |code in |code under )?"
        r"(?:(?:auto-?generated|generated|existing|applied|committed|vendored|compiled|built|new"
        r"|source|config(?:uration)?|lock|lock-?|environment|migration|test|fixture|snapshot"
        r"|legacy|hidden|secret|sensitive) )*"
        rf"(?:files?|code|anything|everything|folders?|{folder}|lockfiles?|migrations?|tests?"
        r"|fixtures?|snapshots?|assets?|lock files?|a file|changes)?"
    )
    inside = (
        r"(?:that (?:is|are) )?(?:in|under|inside|within|inside of|below|to|into|from|on|matching"
        r"|named|called|at|with the extension)?"
    )
    kind = (
        rf" (?:{folder}|folders?|files?|trees?|packages?|modules?|file or its contents"
        rf"|{folder} or (?:its|their) contents|or (?:its|their) contents"
        r"|and (?:its|their) contents|and everything in it|file itself)"
    )
    exception = (
        r",? (?:except|except for|excluding|other than) (?:for )?"
        rf"(?:the |files in |anything in |those in |in )?(?P<except>{_LIST})"
        rf"(?: (?:files?|folders?|{folder}))?"
    )
    return re.compile(
        rf"(?P<noun>{noun})\s*(?P<in>{inside})\s*(?:the |any |our |your )?"
        rf"(?P<after>files? |folders? |{folder} )?(?P<list>{_LIST})(?P<kind>{kind})*"
        rf"(?:{exception})?"
    )


_NAMING_NOUN = re.compile(
    r"\b(files?|folders?|director(?:y|ies)|the|lockfiles?|migrations?|config(?:uration)?|any|all"
    r"|our)$"
)
_FILE_NOUN = re.compile(r"\b(files?|folders?|director(?:y|ies)) ?$")


def _read_files(
    text: str, actions: frozenset[Action], sentence: Sentence, *, by_hand: bool = False
) -> Paths | None:
    """Read the object of a verb about files: ``files in ⟦0⟧ or ⟦1⟧``, ``the ⟦0⟧ directory``."""
    found = _files_pattern().fullmatch(text)
    if found is None:
        return None
    noun = found["noun"].strip()
    inside = found["in"].strip()
    if not _is_about_files(noun, inside):
        return None
    if re.search(r"\bnew\b", noun):
        actions = actions & v.CREATES
        if not actions:
            return None
    if re.search(r"\b(existing|applied|committed)\b", noun):
        actions = actions - v.CREATES
    is_named = bool(found["kind"] or found["after"] or _FILE_NOUN.search(noun))
    return sentence.read_paths(
        found["list"],
        actions,
        by_hand=by_hand,
        named=is_named or inside in ("in", "under", "inside", "within"),
        exceptions=found["except"] or "",
    )


def _is_about_files(noun: str, inside: str) -> bool:
    """Return whether the words before a name show that it is a file."""
    if inside in ("to", "into", "from", "on"):
        return noun.rpartition(" ")[2] in ("files", "file", "changes", "code", "anything")
    if inside or not noun:
        return True
    return _NAMING_NOUN.search(noun) is not None


# --- answers and contexts -------------------------------------------------------------------------


def _answers() -> list[tuple[str, str]]:
    answer = (
        r"(?:(?:your|the|all|any|final|every|each) )*"
        r"(?:answers?|responses?|repl(?:y|ies)|final (?:answer|message)s?|messages to the user)"
    )
    number = (
        r"(?P<n>\d[\d,]*|one|two|three|four|five|six|ten) "
        r"(?P<unit>words?|characters?|lines?|sentences?|paragraphs?)"
    )
    no = rf"(?:{_NOT}|no )"
    never = rf"{answer} (?:must|may|should) (?:not|never)"
    must = rf"{answer} must (?:always )?"
    text = (
        r"(?:the )?(?:words?|phrases?|text|sentence|string|line|signature|marker|footer)? ?"
        rf"(?P<a>{ANCHOR})"
    )
    return [
        (
            rf"{no}(?:use |include |put |add |write |have )?(?:any )?emojis? in {answer}",
            "emoji",
        ),
        (
            rf"{answer} (?:must|may|should|shall) (?:not|never) (?:contain|include|use|have) "
            r"(?:any )?emojis?",
            "emoji",
        ),
        (rf"{no}end {answer} with (?:a )?questions?", "question"),
        (rf"{never} end with a question", "question"),
        (rf"{no}(?:begin|start|open) {answer} with {text}", "starts"),
        (rf"{never} (?:begin|start) with {text}", "starts"),
        (rf"{no}end {answer} with {text}", "ends"),
        (rf"{never} end with {text}", "ends"),
        (rf"{no}(?:use|say|write|include|mention) {text} in {answer}", "contains"),
        (rf"{never} (?:contain|include|mention) {text}", "contains"),
        (rf"(?:always )?end {answer} with {text}", "lacks_end"),
        (rf"{must}end with {text}", "lacks_end"),
        (rf"(?:always )?(?:begin|start) {answer} with {text}", "lacks_start"),
        (rf"{must}(?:begin|start) with {text}", "lacks_start"),
        (rf"{must}(?:contain|include) {text}", "lacks"),
        (
            rf"{answer} must (?:not be (?:longer|more) than|not exceed|never exceed|be (?:at most"
            rf"|no longer than|no more than|under|within|shorter than)) {number}(?: long)?",
            "longer",
        ),
        (
            rf"(?:keep|limit) {answer} "
            rf"(?:to|under|below|within|to at most|to a maximum of) {number}",
            "longer",
        ),
        (rf"{no}(?:give|write|send) {answer} (?:of more than|longer than) {number}", "longer"),
    ]


def _contexts() -> list[str]:
    memory = rf"(?P<what>{_LIST}|(?:the |your )?(?:long-term |longterm )?memory)"
    kind = r"(?:shared|group|public|headless|unattended)"
    kinds = rf"{kind}(?:(?:,? or |,? and |/|, )(?:{kind}|main))*"
    where = (
        rf"(?:in|into|during|for) (?:any )?(?P<kinds>{kinds}|main) "
        r"(?:sessions?|contexts?|chats?|runs?|conversations?)"
    )
    in_main = r"(?:in|during) (?:the )?main sessions?"
    return [
        rf"{_NOT}(?:load|read|include|use|inject|open|share) {memory} {where}",
        rf"{memory} (?:must|may|should|shall) (?:not|never) be "
        rf"(?:loaded|read|included|used|injected) {where}",
        rf"only load {memory} {in_main}",
        rf"{memory} (?:must be |is |may be |should be )?"
        rf"(?:only loaded|loaded only|only read) {in_main}",
    ]
