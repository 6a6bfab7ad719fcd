"""Replace other ways to say a rule by the usual one, and remove what does not change a rule.

"Stage explicit paths only" is an order not to run ``git add -A``, and "`dist/` must remain
git-ignored" an order not to commit it.

All replacements are rows of one table. A row that drops words of the author that it does not name
captures them in groups whose names begin with ``unread``. If such a group contains a word of the
row's ``keeps`` (a limit, a condition or a soft word), the row leaves the text as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal

import attrs

from hilum_checks.limit_words import DOUBTS, EXCEPTIONS, LIMITS, SCOPES, SITUATIONS

Stage = Literal["rule", "text", "note", "sentence", "prohibition", "order", "remark"]
"""When a row applies.

``rule``
    to a whole rule as it is written, before its names are set apart;
``text``
    to a whole rule in lower case, with names as ``⟦0⟧``;
``note``
    to a sentence with names as ``⟦0⟧``, to see whether it only contains an order in parentheses;
``sentence``
    to each sentence, in lower case;
``prohibition``
    to each sentence that forbids something;
``order``
    to each sentence that begins with when something must be done;
``remark``
    to a text around a rule, before it is decided whether the text limits the rule.
"""


@attrs.frozen
class Row:
    """A row of the table.

    Attributes:
        stage: When the row applies.
        pattern: What is replaced.
        replacement: What replaces it, as for ``re.sub``.
        keeps: What must not be dropped: if a group ``unread…`` matches, nothing is replaced.
    """

    stage: Stage
    pattern: re.Pattern[str]
    replacement: str
    keeps: re.Pattern[str]

    def replace(self, text: str) -> str:
        """Return a text in which the usual wording replaces what the row matches."""
        return self.pattern.sub(self._replace_match, text)

    def _replace_match(self, found: re.Match[str]) -> str:
        dropped = [text for name, text in found.groupdict().items() if name.startswith("unread")]
        if any(text and self.keeps.search(text) for text in dropped):
            return found[0]
        return found.expand(self.replacement)


def replace(stage: Stage, text: str) -> str:
    """Return a text after all rows of a stage."""
    for row in _rows_by_stage()[stage]:
        text = row.replace(text)
    return text


def rewrite(text: str) -> str:
    """Return a rule in which other ways to say something are replaced by the usual one."""
    text = _EMPHASIS.sub(lambda found: found[1] or "", text)
    whole = replace("rule", text)
    # Most wordings begin a sentence, and some of them have a colon.
    label = _LABEL.match(text)
    if whole != text or label is None:
        return whole
    return label[0] + replace("rule", text[label.end() :])


# A label such as "**Commits:**", after which a sentence begins.
_LABEL = re.compile(r"^(?=[^`]{0,80}$|[^`:]{1,80}:)[^`:\n]{1,60}:\s+")
_EMPHASIS = re.compile(r"(`[^`\n]*`)|\*\*")

_NAME = r"`[^`\n]+`"
_NAMES = rf"{_NAME}(?:(?:, and|, or|,| and| or|/| /) ?{_NAME})*"
_APPROVAL = r"(?:approval|permission|confirmation|consent|sign-off)"
# Nouns that say no more than that the names after them are files: "IDE caches (`.idea/`)".
_COLLECTIVE = (
    r"(?:caches?|settings|state|logs?|dumps?|fixtures|assets|configs?|configuration|sources?"
    r"|scripts|templates|metadata|bundles|submodules?|material|data|outputs?|artifacts?)"
)
# Options and comments whose only purpose is to skip or silence something.
_SKIPPING = (
    r"(?:`(?:[\w -]* )?--no-verify`|--no-verify|`(?:SKIP|HUSKY)=[^`]*`|`[#/* ]*(?:@ts-(?:ignore"
    r"|expect-error|nocheck)|noqa|type: ?ignore|eslint-disable[\w-]*|nolint|pylint: ?disable)[^`]*`)"
)
_NEVER = r"(?:do not|don't|never)"
_NUMBERED = r"⟦\d+⟧"
_NUMBERED_LIST = rf"{_NUMBERED}(?:\s*(?:, and|,|/|and|or)\s*{_NUMBERED})*"
_OFF_LIMITS = r"(?:is|are) off[- ]limits(?:[:;,]| [-–—]| \()"
_EDIT = (
    rf"{_NEVER} (?:hand-)?(?:edit|modify|touch|change)(?: it| them| directly| manually| by hand)*"
)
_PURPOSE = (
    r"format|lint|check|verify|validate|ensure|catch|confirm|keep|update|refresh|regenerate"
    r"|rebuild|sync|fix|see|make sure|avoid|prevent|understand|get|learn"
)

Written = tuple[str, str] | tuple[str, str, re.Pattern[str]]

# In the order in which they are replaced. The third column is what must not be dropped.
_RULE: tuple[Written, ...] = (
    # 除非用户要求，否则不要提交: the word for "otherwise" only repeats the "unless" before it.
    (r"^(\W*除非[^，,。；;]*[，,]\s*)否则", r"\1"),
    # "Whenever needed, use `a` instead of `b`".
    (r"^(?:whenever|wherever|when|where) needed, (?=use\b)", ""),
    (
        r"\b(?:stage (?:only )?(?:explicit|specific|individual) (?:paths?|files?)(?: only)?"
        r"|(?:always )?stage files? (?:explicitly|individually|by name|one by one))"
        r"(?=[\s.!]*$|[;,] )",
        "Never run `git add -A` or `git add .`",
    ),
    # "User approval is required prior to adding libraries".
    (
        rf"^(?:(?:explicit|prior|user|human|the user's|my|maintainer) )*{_APPROVAL} (?:is |are )?"
        r"(?:required|needed|mandatory|necessary) (?:before|prior to|for) ",
        "Ask before ",
    ),
    (
        r"\brequires? (?:(?:explicit|prior|user|human|my|maintainer) )*(?:ok|okay) before\b",
        "requires approval before",
    ),
    # Libraries are used by installing them.
    (
        r"\b(?:including|introducing|bringing in|pulling in|using) (?=(?:any |new |external "
        r"|third-party |additional )+(?:libraries|dependencies|packages)\b)",
        "installing ",
    ),
    (r"\bupdate submodules\b", "run `git submodule update`"),
    (r"\bfetch dependencies\b", "install dependencies"),
    (r"\bbuilt[- ]in (?=`)", ""),
    # What such an option or comment is always for limits nothing.
    (
        rf"({_SKIPPING}) to (?:bypass|silence|suppress|skip|circumvent|work around|get around)"
        r"\b(?P<unread>[^,;:—`.(]*)(?=$|[,;:—.(])",
        r"\1",
        SCOPES,
    ),
    # A condition that only the user can judge: "unless the task requires it".
    (
        r"\bunless (?:the|your|this|that|a) (?:current )?(?:task|change|issue|ticket|request|plan"
        r"|job) (?:is )?(?:(?:specifically|explicitly|directly|clearly|itself) )*(?:about|requires?"
        r"|calls for|needs?|targets?|involves?|concerns?|demands?|asks? for)"
        r"(?: (?:it|them|this|that|those|these|so|you|to|do|edit(?:ing)?|touch(?:ing)?"
        r"|chang(?:e|es|ing)|a|the|files?|folders?|directories))*(?=[\s.!]*$)",
        "unless asked",
    ),
    # "For files in `a/`, also read `b`".
    (
        rf"^(?:for|when working (?:on|in)|when (?:editing|changing|touching)|for work in"
        rf"|before working (?:on|in)) (?:(?:all|any|the) )?(?:(?:files?|code|work|changes|anything)"
        rf" )?(?:(?:under|in|inside|within|to) )?({_NAMES}),? (?:always |also |first |you must )*"
        rf"(read|consult|review)(?: and follow)? ({_NAME})(?: first)?(?=[\s.!;]*$|[.;] )",
        r"Before editing files in \1, read \3",
    ),
    # "Edit the sources here, not fetched copies under `a/`".
    (
        r"^(?:always |only )?(?:edit|modify|change)\b(?P<unread>[^,`\n]*), (?:not|never) (?:the )?"
        r"(?P<unread_kind>(?:[a-z-]+ ){0,3})(?:copies|copy|files?|ones?|versions?|outputs?|code"
        rf"|sources?) (?:under|in|inside|from) ({_NAME})",
        r"Never edit \3",
        SCOPES,
    ),
    # "Never push without having run the tests: `a`", "never push before running `a`".
    (
        rf"^({_NEVER} (?:commit|push|merge|deploy|publish|release)) (?:without (?:having run|first"
        rf" running|running)|before (?:having run|running)) (?:(?:the|all) )*(?:tests?|test suite)?"
        rf":? ?({_NAMES})(?=[\s.!]*$)",
        r"\1 without running \2",
    ),
    # "Never change `a/` without running `b`", which can only check or use what was changed.
    (
        rf"^{_NEVER} (?:hand-)?(?:edit|modify|touch|change|update)(?: (?:the |any )?(?:files?|code|anything)"
        rf" (?:in|under|inside))? ({_NAMES}|[\w.-]+/[\w./*-]*) without (?:also |then |subsequently |always )?"
        rf"(?:running|re-?running) ({_NAMES})(?: afterwards?| after(?: that)?)?(?=[\s.!]*$)",
        r"After changing \1, run \2",
    ),
    (
        rf"^(?:不要|请勿|切勿|禁止|不得|严禁|不能|不可)在?(?:没有|未)(?:运行|执行) ?({_NAMES}) ?的?情况下(?:就)?"
        rf"(?:修改|更改|改动|编辑) ?({_NAMES})(?=[\s。.!！]*$)",
        r"After changing \2, run \1",
    ),
    # "`a/` is local state and must remain git-ignored".
    (
        rf"^({_NAME})(?: (?:is|are|contains?|holds?)\b(?P<unread>[^,;:\n]*?) and|,)? (?:must|should) "
        r"(?:always )?(?:remain|stay|be kept|be) (?:git-?ignored|untracked|uncommitted"
        r"|out of (?:git|version control|commits))\b",
        r"Never commit \1",
        SITUATIONS,
    ),
    # "`a` should be generated by running `b`".
    (
        rf"^({_NAME}) (?:should|must) (?:only |always )?be (?:re-?)?(?:auto-?)?generated (?:by|with"
        r"|using|via|from)\b(?P<unread>[^;\n]*)",
        r"Do not edit \1 by hand",
        SCOPES,
    ),
    # "`a/` is generated from `b`: edit `b` instead".
    (
        rf"^({_NAMES}) (?:is|are) (?:auto-?|automatically )?generated"
        rf"(?P<unread>[^;:`\n]*(?:{_NAME})?[^;:`\n]*?)(?:[;:,.]| [-–—]+) (?:so |please )*"
        rf"(?:edit|change|modify|update) {_NAMES} instead(?=[\s.!]*$)",
        r"Do not edit \1 by hand",
        SCOPES,
    ),
    # "`a` is not allowed in `b/`".
    (
        rf"(?:^|(?<=; ))({_NAMES}) (?:is|are) (?:not (?:allowed|permitted)|forbidden|prohibited"
        r"|banned|disallowed) (in|inside|under|within|outside|outside of) (`[\w.*/-]*/`)(?=[\s.!]*$)",
        r"Never use \1 \2 \3",
    ),
    # "`a` has to be green before every push".
    (
        rf"^({_NAMES}) (?:has|have|needs?) to (?=(?:be (?:green|clean|passing)|pass|succeed) before\b)",
        r"\1 must ",
    ),
    # "The old site lives in `a/` (read-only reference)".
    (
        rf"^(?P<unread>[^`\n]*)\b(?:lives?|is|are|resides?|located) (?:at|in|under) ({_NAME}) "
        r"\((?:strictly )?read-only(?: (?:reference|input|copy|archive|snapshot|mirror|checkout|data"
        r"|source))?\)",
        r"Never edit files in \2",
        SITUATIONS,
    ),
    # "`a` does not work here: don't use it".
    (
        rf"^({_NAME}) (?:does not|doesn't|will not|won't) work\b(?P<unread>[^;:—–`\n]*?)"
        r"\s*(?:[;:—–,]|--?) ?(?:so )?(?:don't|do not|never) (?:use|run) it\b",
        r"Never run \1",
        SCOPES,
    ),
    # "Do not edit caches and settings (`a/`, `b/`)": the names say which.
    (
        rf"\b((?:do not|don't|never|must not) (?:[a-z-]+,? (?:or )?){{0,3}}?(?:edit|modify|change"
        rf"|touch|commit|delete|remove|read))(?P<unread>(?: [a-z/-]+){{0,2}}?)(?: (?:"
        rf"{_COLLECTIVE}/)?{_COLLECTIVE}) \(({_NAMES})\)",
        r"\1 \3",
        SCOPES,
    ),
    # "Do not modify generated artifacts under the `a/` folder": the folder says where they are.
    (
        rf"\b(generated|compiled|fetched|downloaded|vendored|ignored|git-?ignored|private) (?:build )?"
        rf"(?:content|contents|material|artifacts?|outputs?|files?|code|data) (?:under|in|inside|from)"
        rf" (?:(?:the|any|ignored|git-?ignored|local) ){{0,2}}(?={_NAME})",
        r"generated files in ",
    ),
    (
        rf"\b(?:material|contents?|anything|files) (?:under|in|inside) (?:the |any )?"
        rf"(?:git-?ignored|ignored|untracked|private) ({_NAMES})(?: (?:paths?|folders?|directories))?",
        r"files in \1",
    ),
    # What is made only in one place is no exception: "publishing happens only in `a`".
    (
        r"\s+[-–—]+ (?:publishing|releasing|releases?|deploys?|deployments?|deploying|this|it|that|"
        r"merging|tagging|versioning) (?:only )?(?:happens?|is|are|runs?|goes|gets) "
        r"(?:done |handled |made |run |published |performed )?(?:only |exclusively |automatically )*"
        r"(?:in|by|via|from|through) (?P<unread>[^;.\n]*(?:\.\w[^;.\n]*)*)(?=\.?\s*$)",
        "",
        SITUATIONS,
    ),
    # "Keep to the log crate (never `println!`)".
    (r"(?<![`\w])((?:e?println?|dbg|todo|unimplemented|unreachable|panic)!)", r"`\1`"),
    # "File-based modules (no `mod.rs`)".
    (
        r"^(?P<unread>[^`\n]*)\(no (`[\w-]+\.[a-z]{1,4}`)(?: files?)?\)(?=[\s.!]*$)",
        r"Never create \2",
        SCOPES,
    ),
    # "Never use the third-party `A` or `B` modules".
    (
        rf"\b(use|import) (?:the )?(?:third-party|external|deprecated|legacy) ({_NAMES}) "
        r"(?:modules?|packages?|libraries|library)(?=[\s.!]*$)",
        r"\1 \2",
    ),
    (r"\binvent (?=`)", "create "),
    # "Don't touch `payment-service`": a word with a hyphen alone could be anything.
    (r"\btouch (?:the )?(`[a-z]\w*(?:-\w+)+`)(?=[\s.!]*(?:$| [—–-]))", r"touch the folder \1"),
    # "Do not edit `a/`, or build outputs such as `b/`".
    (
        r"(?<=`), (or|and) (?:any )?(?P<unread>(?:[a-z/-]+ ){1,4})(?:such as|like) "
        rf"(?={_NAME})",
        r", \1 ",
        SCOPES,
    ),
    # The signs would be read as words of their own.
    (r"\bc\+\+(?!\w)", "cpp"),
    (r"\bexpose the contents of\b", "expose"),
    (r"\bconventional prefixes\b", "conventional commit prefixes"),
    # "We use `uv` - never call `pip` directly".
    (
        rf"^(?:we|this project|the project|this repo(?:sitory)?) uses? ({_NAME})\s*(?:[-–—]+|[;,.])"
        rf"\s*(?:never|do not|don't) (?:use|call|run) ({_NAMES})(?: directly)?(?=[\s.!]*$)",
        r"Use \1, not \2",
    ),
    # "Use `uv add` to add dependencies (never `pip install`)".
    (
        rf"^((?:always )?use {_NAME}) to (?P<unread>[^`(]*)\((?:never|not) (`\w+ [^`]+`)\)",
        r"\1, not \3",
        SCOPES,
    ),
    (
        r"\b(?:the )?first line of (?:the |a |your |every |each )?commit messages?\b",
        "commit subject",
    ),
    (r"\b(?:below|within) (?=\d+ (?:char|line|word))", "under "),
    (
        rf"\bcreate (?:new |all )?branches (?:from {_NAME} )?with (?:the|a) prefix (?={_NAME})",
        "branch names must start with ",
    ),
    # Whoever may not read a file cannot print it.
    (
        r"\b(read|open|view|access)(?:,| or|, or) (?:print|display|show|log|output|cat|dump|echo)"
        r"(?:,? or (?:print|display|show|log|output|cat|dump|echo|commit))?"
        r" (?:the )?(?:contents? of )?(?=`)",
        r"\1 ",
    ),
    (
        r",? or any (?:other )?files? (?:with|containing|that contains?|holding) (?=credentials\b"
        r"|secrets\b|keys\b|tokens\b)",
        ", or ",
    ),
    (r"\bapply terraform(?: changes| plans?)?\b", "run `terraform apply`"),
    (
        r"^(?:named exports only|always use (?:only )?named exports|use only named exports|use named exports only"
        r"|use named exports(?=,? (?:not|never|no|instead of)))(?: only)?"
        r"(?:\s*[,–—-]? ?(?:not|never|no|instead of) default exports)?(?=[\s.!]*$)",
        "No default exports",
    ),
    (
        r"^use absolute imports(?: \((?P<unread>[^)]*)\))?,? (?:not|never|instead of|rather than) "
        r"relative(?: imports| ones| paths)?(?=[\s.!]*$)",
        "No relative imports",
        SCOPES,
    ),
    (r"\bcatch bare exceptions\b|\buse a bare `?except:?`?(?= |$|\.)", "use bare except"),
    (rf"\bskip tests \(({_NAMES})\)", r"use \1"),
    # "Update `CHANGELOG.md` with every change".
    (
        rf"^(?:always )?update ({_NAME}) (?:with|for|on|after) (?:every|each|any) (?:code )?change"
        r"(?=[\s.!]*$)",
        r"After any code change, update \1",
    ),
    # "After changing the schema (`a`), run `b`": the name says what the schema is.
    (
        rf"^((?:after|when|whenever) (?:changing|editing|modifying|updating|you change|you edit"
        rf"|you modify)) (?:the |a |any )?(?P<unread>(?:[a-z]+ ){{1,3}}?)\(({_NAME})\),",
        r"\1 \3,",
        SCOPES,
    ),
    (
        rf"^at the (?:start|beginning) of (?:every|each|a|any|the) (?:new )?(?:session|conversation"
        rf"|task),? (?:always |first )*read ({_NAME})(?=[\s.!]*$)",
        r"Read \1 first",
    ),
    (
        r"(?<=, )(?:please |always |first )*(?:review|consult|study|check|see) (?=`[^`]+\.md`)",
        "read ",
    ),
    (
        r"\bwork (?:only |exclusively )?(?:on|in) (?:feature|topic|separate) branches[;,.—–-]* ?"
        r"(?:and )?never (?:directly )?on (?=`?(?:main|master|develop)\b)",
        "never commit to ",
    ),
    (
        rf"\b((?:prs?|pull requests) (?:should|must) target {_NAME}),? (?:not|never) {_NAME}",
        r"\1",
    ),
)

_TEXT: tuple[Written, ...] = (
    # "Never run ⟦0⟧, it wipes the database" gives the reason.
    (
        rf"^({_NEVER} (?:run|use|execute|call) {_NUMBERED_LIST})(?:[,:;]| [-–—]) (?:it|that|this|which)"
        r" (?:wipes|deletes|destroys|removes|drops|erases|breaks|overwrites|resets|kills|loses|corrupts|purges)\b"
        r"(?P<unread>[^,;:.!?—–]*)(?=[.!]?$)",
        r"\1",
        LIMITS,
    ),
    # 不得直接向 `main` 推送代码
    (
        r"(?:向|往)\s*(⟦\d+⟧|main|master|develop|主分支)\s*(?:分支)?\s*(?:上)?\s*(?:直接)?\s*推送(?:代码|提交|更改|改动)?",
        r"推送到 \1",
    ),
    (r"(?:单个|每个|任何)(?=文件(?:不得|不能|不应|不要|禁止)超过)", ""),
    (r"^(?:在)?代码(?:中|里)[，,]?\s*(?=禁止使用|不得使用|不要使用|严禁使用)", ""),
    (r"(?<=[，,；;])\s*一律(?=使用)", "请"),
    # "⟦0⟧ is off limits (don't read it, don't edit it)".
    (
        rf"^({_NUMBERED_LIST}) {_OFF_LIMITS}\s*{_NEVER} (read|open|access)(?: it| them)?"
        rf"(?:(?:,| or|,? (?:and )?{_NEVER}) (?:edit|modify|change|touch|write)(?: it| them)?)?\)?(?=[ .!]*$)",
        r"never \2 or edit \1",
    ),
    (
        rf"^({_NUMBERED_LIST}) {_OFF_LIMITS}\s*{_NEVER} (?:edit|modify|change|touch|write)(?: it| them)?"
        rf"(?:,| or|,? (?:and )?{_NEVER}) (read|open|access)(?: it| them)?\)?(?=[ .!]*$)",
        r"never \2 or edit \1",
    ),
    (r"\s+at all\b(?! costs)", ""),
    # The points would end a sentence.
    (r"\b(e\.g|i\.e)\.", r"\1"),
    (r"\bauto-?(commit|push|merge)\b", r"automatically \1"),
    (r"~\s*(?=\d)", ""),
    (r"[≤<]=?\s*(?=\d)", "at most "),
)

_NOTE: tuple[Written, ...] = (
    # "Keep secrets in `.env` (never commit)".
    (
        rf"^(?P<unread>[^()（）]*?)({_NUMBERED})\s*[(（](?:(?:git-?)?ignored[^\w()]+)?"
        rf"{_NEVER} commit(?: it| this)?[)）]$",
        r"do not commit \2",
        SITUATIONS,
    ),
    # "Old documents (do not edit): `a`, `b`". What is before the colon remains a label.
    (
        rf"^(?:(?:the |our )?(?:legacy|old|deprecated|archived) )?([^⟦()（）]*)[(（]{_EDIT}[)）]\s*"
        rf"[:：-]?\s*({_NUMBERED}(?:,? (?:and |or )?{_NUMBERED})*)$",
        r"\1: do not edit \2",
    ),
    # "`a` is a symlink to `b` - always edit `b`".
    (
        rf"^({_NUMBERED}(?:(?:,| and|, and) {_NUMBERED})*) (?:is|are) (?:a |both )?(?:relative |git )?"
        rf"sym-?links? (?:to|of) (?:{_NUMBERED}|this file)\s*(?:[-–—]|,)\s*(?:so |and |always |only "
        rf"|please )*(?:edit|update|change)\b(?P<unread>.*)$",
        r"do not hand-edit \1",
        SCOPES,
    ),
    # "`public/` - compiled output (do not edit directly)".
    (
        rf"^({_NUMBERED})\s*(?:[-–—:]|is|are)\s*(?P<unread>[^()⟦]*\b(?:generated|compiled|built|build"
        rf"|bundled)\b[^()⟦]*)[(（]{_EDIT}[)）]$",
        r"do not hand-edit \1",
        SITUATIONS,
    ),
    # "Types in `src/api.ts` (generated, do not edit)".
    (
        rf"^(?P<unread>[^()（）]*?)({_NUMBERED_LIST})\s*(?:files?|folders?|directory)?\s*[(（]"
        rf"(?:auto-?)?generated[^\w()]+{_EDIT}[)）]$",
        r"do not hand-edit \2",
        SITUATIONS,
    ),
    (
        rf"^(?P<unread>[^()（）]*\bgenerated\b[^()（）]*?)({_NUMBERED_LIST})\s*(?:files?|folders?"
        rf"|directory)?\s*[(（]{_EDIT}[)）]$",
        r"do not hand-edit \2",
        SITUATIONS,
    ),
)

_SENTENCE: tuple[Written, ...] = (
    # "No ⟦0⟧, no ⟦1⟧ in ⟦2⟧" names the place of both.
    (
        r"^(no|never use|do not use|don't use) (⟦\d+⟧)(?:, and|,| and|, or| or)"
        r" (?:no|never use|do not use|don't use) (?=⟦\d+⟧ (?:in|outside)\b)",
        r"\1 \2 or ",
    ),
    (
        r"\s+and fix (?:any|all|the)? ?(?:reported |lint )?"
        r"(?:issues|errors|warnings|problems|failures)",
        "",
    ),
    # What a file is generated from says nothing about the rule: "`a` is generated by `b` from `c`".
    (
        r"\b((?:auto-?)?generated) (?:by|from|via|with|using)\b(?P<unread>[^,.;:()—–]*?)"
        r"(?=\s+[-–—]|[,;:—]|\s+and (?:must|should)\b|$)",
        r"\1",
        SITUATIONS,
    ),
    # "Never work on `main`" is about commits.
    (
        r"\b(?:work|develop)(?:ing)? (?:directly )?on (?=(?:the )?(?:⟦|main\b|master\b|develop\b))",
        "commit to ",
    ),
    # "Keep ⟦0⟧ out of version control".
    (
        r"\bkeep ([^,;]*⟦\d+⟧[^,;]*) (?:untracked(?=[ .!]*$)"
        r"|out of (?:the )?(?:git|version control|source control|commits)\b)",
        r"never commit \1",
    ),
    # "⟦0⟧ must never be read or committed": alone, "committed" describes files.
    (
        r"(?<=\bbe )((?:[a-z]+(?: |, ))*(?:or|nor) )committed(?=[ .!]*$)",
        r"\1commit",
    ),
    (
        r"(?<=\bbe )committed((?:, [a-z]+)*,? (?:or|nor) [a-z]+)(?=[ .!]*$)",
        r"commit\1",
    ),
    # "Leave ⟦0⟧ in the code" is about text, and not about a file of this name.
    (
        r"\b(?:leave|keep|put) ((?:any |a |an )?⟦\d+⟧(?:(?:, |,? or |,? and )⟦\d+⟧)*)(?: calls?| statements?)?"
        r" in (?:the |your |our )?(?:source |production |committed )?code(?:base)?(?=[ .!]*$)",
        r"use \1",
    ),
    # "⟦0⟧ is generated and must not be committed". "⟦0⟧ is not committed" only says what is.
    (
        r"^(?:the )?(?:files? |folder |directory )?(⟦\d+⟧(?:(?:, and|,| and) ⟦\d+⟧)*)(?: files?)?"
        r"(?: (?:is|are) (?:(?:auto-?)?generated|\.?git-?ignored),?(?: and|(?= must)))?"
        r" (?:(?:must|should) (?:not|never) be|(?<=and )never) committed[ .!]*$",
        r"never commit \1",
    ),
    (
        r"\bis an? read-only (?P<unread>[\w-]+(?: [\w-]+)?)$",
        "is read-only",
        SCOPES,
    ),
    # "Run `x` to check the types before pushing".
    (
        r"\bto (?:validate|verify|check|ensure|confirm) (?P<unread>[a-z ]+?) "
        r"(?=(?:locally )?before\b)",
        "",
        SCOPES,
    ),
    # "Read ⟦0⟧ if it is not in context yet": whoever knows it has read it.
    (
        r"^((?:before [^;:—]*, )?(?:please |always |first )*(?:read|consult|review|study) [^;:—]*?),?"
        r" if (?:it|they|you) (?:is not|isn't|are not|aren't|have not|haven't)"
        r"(?: (?:already|yet|been|in|your|the|context|read|loaded|familiar|seen|with|it|them|so))+"
        r"(?=\s+[-–—]|[,;:—]|$)",
        r"\1",
    ),
    # "Confirm the status with ⟦0⟧ before editing" asks nobody.
    (r"^confirm (?=[^;]*\bwith ⟦\d+⟧ before\b)", "check "),
    (r",? as requested\b|\bwith no (?:type |lint )?(?:errors|warnings|failures|issues)\b", ""),
    # "Ask for permission to push".
    (r"\b(approval|permission|confirmation|consent|authorization) to (?=[a-z])", r"\1 before "),
    (r"\band before\b", "and"),
    # "Package manager: pnpm (mandatory)".
    (r"\bpackage manager: (⟦\d+⟧|\w+), mandatory\b", r"use \1 as the package manager"),
    # "Do not edit it, even if I ask", "even when a test fails".
    (
        r",? even (?:if|when) (?:i|we|you are|you're|the user) (?:asks?|asked|tells? you)(?: to)?$",
        "",
    ),
    (
        r",? even (?:if|when|for|in|as|though)\b(?P<unread>[^,;:—]*)$",
        "",
        LIMITS,
    ),
)

_PROHIBITION: tuple[Written, ...] = (
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
        r"\s+for any (?:task|step|reason|purpose|change|work|feature|plan|operation)s?"
        r"(?: or (?:task|step|reason|purpose|change|work|feature|plan|operation)s?)*$"
        r"|(?<=⟧)\s+for (?:type[- ]?check(?:s|ing)|linting|formatting)$",
        "",
    ),
    (r"\s+of (?:the |a |any )?commits?$", ""),
    # "No ⟦0⟧ in committed code".
    (r"\s+in (?:the )?(?:committed|final|merged|checked-in) (?:code|tests|files)\b", ""),
    # "Do not edit ⟦0⟧ or similar files".
    (
        r"(?<=⟧),? (?:or|and) (?:any )?(?:other|similar|equivalent)(?P<unread>(?: [a-z-]+){0,3})$",
        "",
        SCOPES,
    ),
)

# "Before pushing, run `x` to catch errors".
_ORDER: tuple[Written, ...] = ((rf"\s+to (?:{_PURPOSE})\b(?P<unread>[^,;⟦]*)$", "", SITUATIONS),)

_REMARK: tuple[Written, ...] = (
    (r"\b(?:rather than|instead|ever|at all)\b", ""),
    (r"等待?(?:用户|我)(?:确认|同意|批准)", ""),
    # A reason limits nothing, nor does what widens a rule.
    (r"\b(?:because|to (?:prevent|avoid))\b(?P<unread> [^,;]*)", "", EXCEPTIONS),
    (r",? even (?:when|if)\b(?P<unread>[^,;]*)", "", LIMITS),
    (r"\bnot optional(?: suggestions)?\b", ""),
    (r"\bas the only (?:⟦\d+⟧|(?P<unread>\w+))$", ""),
    (r"^(?:stage|add) (?P<unread>[\w ]+) only$", "", DOUBTS),
    (r"\b(?:is|are) (?:not |never )?(?:meant|intended|supposed) to be edited", ""),
)


@cache
def _rows_by_stage() -> dict[Stage, tuple[Row, ...]]:
    return {
        "rule": _compile("rule", _RULE),
        "text": _compile("text", _TEXT),
        "note": _compile("note", _NOTE),
        "sentence": _compile("sentence", _SENTENCE),
        "prohibition": _compile("prohibition", _PROHIBITION),
        "order": _compile("order", _ORDER),
        "remark": _compile("remark", _REMARK),
    }


def rows() -> tuple[Row, ...]:
    """Return all rows of the table, in the order in which they are replaced."""
    return tuple(row for stage in _rows_by_stage().values() for row in stage)


def _compile(stage: Stage, table: Iterable[Written]) -> tuple[Row, ...]:
    return tuple(
        Row(stage, re.compile(row[0], re.IGNORECASE), row[1], row[2] if len(row) > 2 else DOUBTS)
        for row in table
    )
