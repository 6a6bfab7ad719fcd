"""The list of harmless commands: each with the options that keep it harmless, and what its operands
are.

An option that is not listed is a doubt, so a new option of a tool is one until somebody has read
what it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from hilum_guard.places import SECRET_NAMES, matches
from hilum_guard.words import Word

if TYPE_CHECKING:
    from hilum_guard.simple import Simple


def _longs(text: str) -> frozenset[str]:
    return frozenset("--" + name for name in text.split())


@attrs.frozen
class Program:
    """What a harmless program may be given.

    Attributes:
        flags: Short options without a value.
        valued: Short options with a value that is no file.
        longs: Long options without a value, or with an optional one after `=`.
        long_valued: Long options with a value that is no file.
        operands: `paths`, `text` (never opened), `first` (the first is text, the rest paths) or
            `none`.
        instead: Options that give the text which would else be the first operand: then all operands
            are paths.
        numbers: A number may be an option (`head -20`).
        most: The most operands it may get.
        least: The fewest operands it must get.
        deep: Options with which it reads all below its paths; `*` if always.
        check: A further look at the values of options and at the operands; gives a doubt.
    """

    flags: str = ""
    valued: str = ""
    longs: frozenset[str] = attrs.field(default="", converter=_longs)
    long_valued: frozenset[str] = attrs.field(default="", converter=_longs)
    operands: str = "paths"
    instead: str = ""
    numbers: bool = False
    most: int = 1000
    least: int = 0
    deep: str = ""
    check: Callable[[list[tuple[str, str]], list[Word]], str] | None = None


def doubt(simple: Simple, writes: list[str]) -> str:
    """Return why a command is not harmless; empty if it is.

    Args:
        simple: The command.
        writes: Gets the files that its redirections write.
    """
    from hilum_guard.reading import HARMLESS_VARIABLES

    for redirect in simple.redirects:
        if redirect.operator in {">&", "<&"} and re.fullmatch(r"\d|-", redirect.target.value):
            continue
        if redirect.operator not in {">", ">>", "<", "&>", "&>>", ">|"}:
            return "It has a redirection that is not a plain one."
        if redirect.operator == "<":
            why = simple.places.read_doubt(redirect.target, list(simple.cwds))
        else:
            why, target = simple.places.write_doubt(redirect.target, list(simple.cwds))
            writes += [target] if target and not why else []
        if why:
            return why
    if set(simple.assigned) - {
        name for name in simple.assigned if HARMLESS_VARIABLES.fullmatch(name)
    }:
        return f"It sets {simple.assigned[0]}, which may change what runs."
    return _words_doubt(simple) if simple.words else ""


def _words_doubt(simple: Simple) -> str:
    first = simple.words[0]
    if not first.plain or first.glob:
        return "Which program it runs, only the run would tell."
    if any(not word.plain for word in simple.words):
        return "Some of its words only the run would tell."
    name = re.sub(r"^/(usr/)?bin/", "", first.value)
    if simple.wrapper:
        options = " ".join(word.value for word in simple.words[1:3])
        # `time` as a program of its own has an option for a file to write.
        clear = (
            re.match(r"(-p )?[^-]", options)
            if name == "time"
            else (name in {"timeout", "nice"} and re.fullmatch(r"\S+|", _wrapped(simple)))
        )
        if clear:
            return ""
        return f"`{first.value}` runs another command in its own way."
    if name == "git":
        from hilum_guard.harmless_git import doubt as git_doubt

        return git_doubt(simple)
    special = _SPECIAL.get(name)
    if special:
        return special(simple)
    known = PROGRAMS.get(name)
    if known is None:
        return f"`{first.value}` is not on the list of harmless commands."
    return words_doubt(known, simple, simple.words[1:])


def _wrapped(simple: Simple) -> str:
    """Return the options of `timeout 5 …` and `nice -n 5 …` as one text without white space, or one
    with it.
    """
    values = [word.value for word in simple.words[1:3]]
    if values and re.fullmatch(r"\d+(\.\d+)?[smh]?", values[0]):
        return values[0]
    return "no plain number"


def words_doubt(known: Program, simple: Simple, words: Iterable[Word]) -> str:
    """Return why the arguments of a program are not harmless; empty if they are."""
    try:
        options, operands = parse(known, list(words))
    except ValueError as error:
        return f"`{simple.words[0].value}` with {error} is not on the list of harmless commands."
    if known.check and (why := known.check(options, operands)):
        return why
    given = any(option in known.instead.split() for option, _ in options)
    texts = {"text": len(operands), "first": 0 if given else 1, "none": 0, "paths": 0}[
        known.operands
    ]
    if (
        len(operands) > (0 if known.operands == "none" else known.most)
        or len(operands) < known.least
    ):
        return (
            f"`{simple.words[0].value}` with {len(operands)} arguments is not on the list of"
            " harmless commands."
        )
    if any(word.glob for word in operands[:texts]):
        return "A pattern for names stands where a text should."
    deep = known.deep == "*" or any(option in known.deep.split() for option, _ in options)
    paths = operands[texts:] or ([Word(".")] if deep else [])
    for word in paths:
        if word.value != "-" and (
            why := simple.places.read_doubt(word, list(simple.cwds), deep=deep)
        ):
            return why
    return ""


def parse(known: Program, words: list[Word]) -> tuple[list[tuple[str, str]], list[Word]]:
    """Part options from operands.

    Raises:
        ValueError: An option is not listed; the message names it.
    """
    options: list[tuple[str, str]] = []
    operands: list[Word] = []
    i = 0
    while i < len(words):
        word = words[i]
        text = words[i].value
        i += 1
        if text == "--":
            operands += words[i:]
            break
        if not text.startswith("-") or text == "-":
            operands.append(word)
        elif word.glob:
            raise ValueError("a pattern for an option")
        elif known.numbers and re.fullmatch(r"-\d+", text):
            options.append(("-#", text[1:]))
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if name in known.long_valued:
                if not equals:
                    value = words[i].value if i < len(words) else ""
                    i = i + 1
            elif name not in known.longs:
                raise ValueError(name)
            options.append((name, value))
        else:
            taken, found = _shorts(known, text[1:], words[i : i + 1])
            i += taken
            options += found
    return options, operands


def _shorts(
    known: Program, letters: str, following: list[Word]
) -> tuple[int, list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []
    for n, letter in enumerate(letters):
        if letter in known.valued:
            rest = letters[n + 1 :]
            found.append(("-" + letter, rest or (following[0].value if following else "")))
            return (0 if rest else 1), found
        if letter not in known.flags:
            raise ValueError("-" + letter)
        found.append(("-" + letter, ""))
    return 0, found


# -- looks at values
# -------------------------------------------------------------------------------------------------

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_SUBSTITUTE = "|".join(
    rf"s{d}(?:[^{d}\\\n]|\\[^\n])*{d}(?:[^{d}\\\n]|\\[^\n])*{d}[gpiI\d]*"
    for d in ("/", r"\|", "#", ",")
)
_SED = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*!?(?:[pdq=]|{_SED_SUBSTITUTE})\s*"
)


def _sed(options: list[tuple[str, str]], operands: list[Word]) -> str:
    """Only printing, deleting and substituting: no `e`, `w`, `r`, no script from a file."""
    scripts = [value for name, value in options if name in {"-e", "--expression"}]
    if not scripts:
        if operands and _safe_sed(operands[0].value):
            return ""
        return "Its sed script is not a plain one."
    if all(map(_safe_sed, scripts)):
        return ""
    return "Its sed script is not a plain one."


def _safe_sed(script: str) -> bool:
    at = 0
    while len(script) <= MAX_SCRIPT and (match := _SED.match(script, at)):
        at = match.end()
        if at == len(script):
            return True
        if script[at] != ";":
            return False
        at += 1
    return False


_AWK_FIELD = r"(\$(\d+|NF)|NR|NF|\"[^\"\\|]*\")"
_AWK = re.compile(
    rf"\s*(NR ?[=<>]=? ?\d+ ?|/[\w .:-]+/ ?)?(\{{ ?print(\s+{_AWK_FIELD}(( ?, ?| ){_AWK_FIELD})*)?"
    r" ?;? ?\}\s*)?"
)
MAX_SCRIPT = 500
"""Characters of a script for `sed`, `awk` or `jq` that is looked at."""
_JQ = re.compile(
    r"\.?[\w.\[\]\"-]*(\s*\|\s*(\.[\w.\[\]\"-]*|keys|length|type|sort|unique|first|last))*"
)


def _awk(options: list[tuple[str, str]], operands: list[Word]) -> str:
    script = operands[0].value if operands else ""
    if any("=" in word.value for word in operands[1:]):
        return "It sets a variable of awk."
    plain = script.strip() and len(script) <= MAX_SCRIPT and _AWK.fullmatch(script)
    return "" if plain else "Its awk program is not a plain one."


def _jq(options: list[tuple[str, str]], operands: list[Word]) -> str:
    script = operands[0].value if operands else ""
    bad = re.search(r"env|input|import|include|debug|halt|\$", script)
    plain = script and len(script) <= MAX_SCRIPT and not bad and _JQ.fullmatch(script)
    return "" if plain else "Its jq program is not a plain one."


def _globs(options: list[tuple[str, str]], operands: list[Word]) -> str:
    """A pattern of `rg -g` finds hidden files too."""
    for name, value in options:
        if name in {"-g", "--glob", "--iglob"} and not value.startswith("!"):
            probes = (".env", "id_rsa", ".netrc", "credentials", "x.pem", "secrets.json")
            pattern = value.casefold().rpartition("/")[2]
            if (
                any(matches(probe, (pattern,)) for probe in probes)
                or matches(pattern, SECRET_NAMES)
                or "{" in value
            ):
                return "Its pattern takes files that may hold secrets."
    return ""


def _date(options: list[tuple[str, str]], operands: list[Word]) -> str:
    if all(word.value.startswith("+") for word in operands):
        return ""
    return "It may set the clock."


def _sleep(options: list[tuple[str, str]], operands: list[Word]) -> str:
    plain = all(re.fullmatch(r"\d{1,3}(\.\d+)?s?", word.value) for word in operands)
    return "" if plain else "It waits for long."


def _ps(options: list[tuple[str, str]], operands: list[Word]) -> str:
    if all(word.value in {"aux", "ax", "axu", "u", "x"} for word in operands):
        return ""
    return "It may show environments."


# -- programs with a syntax of their own
# -----------------------------------------------------------------------------

_FIND_FLAGS = frozenset(
    """-print -print0 -prune -not ! -o -or -a -and ( ) -depth -xdev -mount -empty -ls -quit -readable -writable -executable
    -daystart -noleaf -true -false -H -P , -nouser -nogroup""".split()
)
_FIND_VALUED = frozenset(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -maxdepth -mindepth -size -mtime -mmin -atime
    -amin -ctime -cmin -perm -user -group -links -printf -regextype -inum -uid -gid -lname -xtype""".split()
)


def _find(simple: Simple) -> str:
    words = list(simple.words[1:])
    i = 0
    tests = False
    while i < len(words):
        text = words[i].value
        if words[i].glob and tests:
            return "A pattern for names stands where a text should."
        if text in _FIND_VALUED:
            tests = True
            i += 2
            if any(word.glob for word in words[i - 1 : i]):
                return "A pattern for names stands where a text should."
        elif text in _FIND_FLAGS:
            tests = tests or text not in {"-H", "-P"}
            i += 1
        elif tests or text.startswith(("-", "(", "!", ",", ")")):
            return f"`find` with {text} is not on the list of harmless commands."
        else:
            why = simple.places.read_doubt(words[i], list(simple.cwds))
            if why:
                return why
            i += 1
    return ""


def _cd(simple: Simple) -> str:
    if len(simple.words) != 2 or simple.words[1].value.startswith("-"):
        return "It changes to a folder that only the run would tell."
    return simple.places.read_doubt(simple.words[1], list(simple.cwds))


def _set(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    if values:
        known = re.fullmatch(r"(-[euxo]+( pipefail)? ?)+", " ".join(values) + " ")
    else:
        known = None
    if known and ("o" not in "".join(v for v in values if v[0] == "-") or "pipefail" in values):
        return ""
    return "It changes how the shell works."


def _command(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    if values[:1] in (["-v"], ["-V"]):
        return ""
    return "`command` runs another command in its own way."


def _version(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    name = simple.words[0].value
    if values in (["--version"], ["-V"]):
        return ""
    return f"`{name}` runs programs, or is not on the list of harmless ones."


def _text_only(simple: Simple) -> str:
    """`echo` and `test`: nothing that they are given is an option that matters, but for one."""
    if simple.words[0].value != "echo" and {"-v", "-R"} & {word.value for word in simple.words}:
        return "`test -v` runs commands that stand in the index of a variable."
    if any(word.glob for word in simple.words):
        return "A pattern for names stands where a text should."
    return ""


def _env(simple: Simple) -> str:
    return "It shows the environment, which may hold secrets."


_SPECIAL: dict[str, Callable[[Simple], str]] = {
    "find": _find,
    "cd": _cd,
    "set": _set,
    "command": _command,
    "env": _env,
    "printenv": _env,
    "echo": _text_only,
    "test": _text_only,
    **dict.fromkeys(
        "python python3 node bash gcc clang ruff uv make cmake docker".split(), _version
    ),
}

_GREP = Program(
    "EFGPivwxclLoqshHnbrRTUZaIzy",
    "eABCmdD",
    "color colour line-number recursive ignore-case invert-match word-regexp line-regexp count"
    " files-with-matches files-without-match only-matching quiet silent no-messages with-filename"
    " no-filename extended-regexp fixed-strings perl-regexp basic-regexp text null byte-offset"
    " no-ignore-case dereference-recursive",
    "regexp include exclude exclude-dir max-count after-context before-context context binary-files"
    " label directories",
    operands="first",
    instead="-e --regexp",
    numbers=True,
    deep="-r -R --recursive --dereference-recursive -d --directories",
)
_SUM = Program("btwc", longs="binary text check tag status quiet strict warn ignore-missing zero")
_TEXT = Program(operands="text")

PROGRAMS: dict[str, Program] = {
    ":": _TEXT,
    "true": _TEXT,
    "false": _TEXT,
    "exit": Program(operands="text", most=1),
    "pwd": Program("LP"),
    "ls": Program(
        "aAlhtrSR1dFGiopsvXcufUkmnQBCgxLHNbTqD",
        "wI",
        "all almost-all color human-readable recursive reverse "
        "size directory classify group-directories-first full-time si inode no-group file-type",
        "sort time time-style ignore hide format width indicator-style quoting-style",
    ),
    "printf": Program(operands="text"),
    "cat": Program(
        "nbsAETvet", longs="number number-nonblank squeeze-blank show-all show-ends show-tabs"
    ),
    "tac": Program("b"),
    "rev": Program(),
    "nl": Program("p", "bdfhilnsvw"),
    "head": Program("qvz", "nc", "quiet verbose", "lines bytes", numbers=True),
    "tail": Program("qvz", "nc", "quiet verbose", "lines bytes", numbers=True),
    "wc": Program("lwcmL", longs="lines words bytes chars max-line-length"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": Program(
        "nilcwvxFSsoeUPHNIpq0",
        "eABCgtTmjMdE",
        "files count count-matches no-heading heading line-number no-line-number ignore-case"
        " smart-case case-sensitive files-with-matches files-without-match word-regexp"
        " fixed-strings only-matching invert-match multiline json vimgrep stats column no-messages"
        " type-list trim null sort-files pcre2 with-filename no-filename color line-regexp quiet"
        " crlf",
        "glob iglob type type-not context after-context before-context max-count max-depth sort"
        " sortr regexp colors max-columns max-filesize encoding threads replace",
        operands="first",
        instead="-e --regexp",
        check=_globs,
    ),
    "sort": Program(
        "bdfghiMnRrVcCmsuz",
        "kt",
        "reverse unique numeric-sort human-numeric-sort version-sort stable check "
        "ignore-case ignore-leading-blanks zero-terminated",
        "key field-separator",
    ),
    "uniq": Program(
        "cdDiuz",
        "fsw",
        "count repeated unique ignore-case",
        "skip-fields skip-chars check-chars",
        most=1,
    ),
    "cut": Program(
        "snz",
        "bcdf",
        "only-delimited complement",
        "delimiter fields bytes characters output-delimiter",
    ),
    "tr": Program(
        "cdsCt", longs="delete squeeze-repeats complement truncate-set1", operands="text"
    ),
    "sed": Program(
        "nErsuz",
        "e",
        "quiet silent regexp-extended",
        "expression",
        operands="first",
        instead="-e --expression",
        check=_sed,
    ),
    "awk": Program("", "F", operands="first", check=_awk),
    "gawk": Program("", "F", operands="first", check=_awk),
    "jq": Program(
        "rcSesMCj",
        "",
        "raw-output compact-output sort-keys exit-status slurp tab",
        operands="first",
        check=_jq,
    ),
    "diff": Program(
        "uNrqwbBiyacest",
        "UW",
        "unified brief recursive side-by-side ignore-all-space color new-file "
        "ignore-space-change ignore-blank-lines stat suppress-common-lines report-identical-files",
        "width exclude label",
        deep="-r --recursive",
    ),
    "cmp": Program("bls", "n"),
    "comm": Program("123iz"),
    "paste": Program("sz", "d"),
    "join": Program("i", "12tojae"),
    "fold": Program("bs", "w"),
    "expand": Program("i", "t"),
    "column": Program("tnx", "sco", "table"),
    "od": Program("bcdoxsvi", "ANtjw"),
    "hexdump": Program("Cbcdox", "ns"),
    "strings": Program("a", "nt"),
    "file": Program("bhikLNpr", longs="brief mime mime-type mime-encoding"),
    "stat": Program("Lft", "c", "dereference terse", "format printf"),
    "du": Program(
        "abcDhHklLmsSx0",
        "d",
        "all summarize human-readable total apparent-size",
        "max-depth exclude",
    ),
    "df": Program("aBhHiklPTx", "", "human-readable all inodes portability print-type"),
    "tree": Program("adfiLpshugDFrtCnNA", "PI", "dirsfirst noreport gitignore prune filelimit", ""),
    "basename": Program("az", "s", operands="text"),
    "dirname": Program("z", operands="text"),
    "realpath": Program("emsqLPz", longs="relative-to relative-base"),
    "readlink": Program("efmnqsvz"),
    "which": Program("a", operands="text"),
    "type": Program("aftpP", operands="text"),
    "date": Program("uIR", "d", "utc iso-8601 rfc-3339", "date", operands="text", check=_date),
    "seq": Program("w", "fs", operands="text", most=3),
    "sleep": Program(operands="text", check=_sleep, least=1),
    "whoami": Program(operands="none"),
    "id": Program("ugnGr", operands="none"),
    "groups": Program(operands="none"),
    "hostname": Program("s", operands="none"),
    "uname": Program("asnrvmpio", longs="all", operands="none"),
    "uptime": Program("ps", operands="none"),
    "free": Program("bkmght", longs="human", operands="none"),
    "nproc": Program(longs="all", operands="none"),
    "lscpu": Program(operands="none"),
    "tty": Program(operands="none"),
    "ps": Program("efFlAaux", "pCu", "", "sort", operands="text", check=_ps),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "cksum": Program(),
    "b2sum": _SUM,
}
