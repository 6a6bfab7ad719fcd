"""The list of harmless commands, with the options and operands that keep them harmless.

A command with an unlisted option is not harmless: a tool's new option needs approval until somebody
has checked what it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hilum_guard import harmless_git
from hilum_guard.harmless_arguments import GLOB_AS_TEXT, Program, find_argument_doubt
from hilum_guard.secret_names import SECRET_NAMES, matches
from hilum_guard.shell_commands import ParsedCommand, Redirect
from hilum_guard.shell_words import Word

MAX_SCRIPT = 500
"""Maximum number of characters in a `sed`, `awk` or `jq` script that is checked."""
_PLAIN_REDIRECTIONS = frozenset(("<", ">", ">>", ">|", "&>", "&>>"))
# Variables that change how output looks, not what runs.
_HARMLESS_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI"
)


def find_doubt(command: ParsedCommand, writes: list[str]) -> str:
    """Return why a command is not harmless; empty if it is.

    Args:
        command: The command.
        writes: Receives the files that the redirections of the command write.
    """
    for redirect in command.redirects:
        why = _find_redirect_doubt(command, redirect, writes)
        if why:
            return why
    if not all(map(_HARMLESS_VARIABLES.fullmatch, command.assigned)):
        return f"It sets {command.assigned[0]}, which may change what runs."
    return _find_words_doubt(command) if command.words else ""


def _find_redirect_doubt(command: ParsedCommand, redirect: Redirect, writes: list[str]) -> str:
    operator = redirect.operator
    # `2>&1` and `2>&-` name no file.
    if operator in {">&", "<&"} and re.fullmatch(r"\d|-", redirect.target.value):
        return ""
    if operator not in _PLAIN_REDIRECTIONS:
        return "It uses a complex redirection."
    if operator == "<":
        return command.checker.read_doubt(redirect.target, list(command.cwds))
    why, target = command.checker.write_doubt(redirect.target, list(command.cwds))
    if target and not why:
        writes.append(target)
    return why


def _find_words_doubt(command: ParsedCommand) -> str:
    first = command.words[0]
    if not first.plain or first.glob:
        return "Its program is known only at run time."
    if any(not word.plain for word in command.words):
        return "Some of its words are known only at run time."
    # A program in another folder may do anything, whatever its name is.
    name = re.sub(r"^/(usr/)?bin/", "", first.value)
    if command.wrapper:
        return "" if _is_harmless_wrapper(command, name) else _wraps(first.value)
    if name == "git":
        return harmless_git.find_doubt(command)
    special = _SPECIAL.get(name)
    if special:
        return special(command)
    known = PROGRAMS.get(name)
    if known is None:
        return f"`{first.value}` is not on the list of harmless commands."
    return find_argument_doubt(known, command, command.words[1:])


def _is_harmless_wrapper(command: ParsedCommand, name: str) -> bool:
    """Return whether `time`, `timeout` or `nice` only runs the command after it."""
    values = command.arguments
    if name == "time":
        # The standalone program `time` has an option that writes a file.
        return re.match(r"(-p )?[^-]", " ".join(values[:2])) is not None
    first = values[0] if values else ""
    return name in {"timeout", "nice"} and re.fullmatch(r"\d+(\.\d+)?[smh]?", first) is not None


def _wraps(program: str) -> str:
    return f"`{program}` runs another command in a way that is not checked."


# --- checks of values -----------------------------------------------------------------------------

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_SUBSTITUTE = "|".join(
    rf"s{d}(?:[^{d}\\\n]|\\[^\n])*{d}(?:[^{d}\\\n]|\\[^\n])*{d}[gpiI\d]*"
    for d in ("/", r"\|", "#", ",")
)
_SED = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*!?(?:[pdq=]|{_SED_SUBSTITUTE})\s*"
)


def _check_sed(options: list[tuple[str, str]], operands: list[Word]) -> str:
    """Allow only scripts that print, delete and substitute: no `e`, `w`, `r`, no script file."""
    scripts = [value for name, value in options if name in {"-e", "--expression"}]
    if not scripts:
        scripts = [word.value for word in operands[:1]]
    if scripts and all(map(_is_plain_sed, scripts)):
        return ""
    return "Its sed script is too complex to be considered harmless."


def _is_plain_sed(script: str) -> bool:
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while match := _SED.match(script, at):
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
# Words that make jq read the environment or further files.
_JQ_INPUT = re.compile(r"env|input|import|include|debug|halt|\$")
_JQ = re.compile(
    r"\.?[\w.\[\]\"-]*(\s*\|\s*(\.[\w.\[\]\"-]*|keys|length|type|sort|unique|first|last))*"
)


def _check_awk(options: list[tuple[str, str]], operands: list[Word]) -> str:
    script = operands[0].value if operands else ""
    if any("=" in word.value for word in operands[1:]):
        return "It sets an awk variable."
    is_plain = script.strip() and len(script) <= MAX_SCRIPT and _AWK.fullmatch(script)
    return "" if is_plain else "Its awk program is too complex to be considered harmless."


def _check_jq(options: list[tuple[str, str]], operands: list[Word]) -> str:
    script = operands[0].value if operands else ""
    is_plain = 0 < len(script) <= MAX_SCRIPT and _JQ.fullmatch(script)
    if is_plain and not _JQ_INPUT.search(script):
        return ""
    return "Its jq program is too complex to be considered harmless."


def _check_globs(options: list[tuple[str, str]], operands: list[Word]) -> str:
    """Check the patterns of `rg -g`, which also match hidden files."""
    for name, value in options:
        if name in {"-g", "--glob", "--iglob"} and not value.startswith("!"):
            pattern = value.casefold().rpartition("/")[2]
            finds_secret = any(matches(example, (pattern,)) for example in _SECRET_EXAMPLES)
            if finds_secret or matches(pattern, SECRET_NAMES) or "{" in value:
                return "Its pattern matches files that may contain secrets."
    return ""


_SECRET_EXAMPLES = (".env", "id_rsa", ".netrc", "credentials", "x.pem", "secrets.json")


def _check_date(options: list[tuple[str, str]], operands: list[Word]) -> str:
    is_format = all(word.value.startswith("+") for word in operands)
    return "" if is_format else "It may set the clock."


def _check_sleep(options: list[tuple[str, str]], operands: list[Word]) -> str:
    is_short = all(re.fullmatch(r"\d{1,3}(\.\d+)?s?", word.value) for word in operands)
    return "" if is_short else "It waits for a long time."


def _check_ps(options: list[tuple[str, str]], operands: list[Word]) -> str:
    is_plain = all(word.value in {"aux", "ax", "axu", "u", "x"} for word in operands)
    names = {name for name, _ in options}
    letters = "".join(name + value for name, value in options if not name.startswith("--"))
    # ps reads all options in the style of BSD, where `e` shows environments, if they are not valid
    # otherwise: for `-x`, or a user that does not exist.
    is_ambiguous = bool(operands) or not names.isdisjoint(("-x", "-u"))
    if is_plain and not (is_ambiguous and "e" in letters):
        return ""
    return "It may show the environments of processes."


# --- programs with special syntax -----------------------------------------------------------------

# Without `-exec`, `-ok`, `-delete` and `-fprint`, which run programs, delete files or write them.
_FIND_FLAGS = frozenset(
    """-print -print0 -prune -not ! -o -or -a -and ( ) -depth -xdev -mount -empty -ls -quit
    -readable -writable -executable -daystart -noleaf -true -false -H -P , -nouser
    -nogroup""".split()
)
_FIND_VALUED = frozenset(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -maxdepth -mindepth
    -size -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -links -printf -regextype
    -inum -uid -gid -lname -xtype""".split()
)


def _check_find(command: ParsedCommand) -> str:
    words = command.words[1:]
    has_tests = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.value
        at += 1
        if word.glob and has_tests:
            return GLOB_AS_TEXT
        if text in _FIND_VALUED:
            has_tests = True
            if any(value.glob for value in words[at : at + 1]):
                return GLOB_AS_TEXT
            at += 1
        elif text in _FIND_FLAGS:
            has_tests = has_tests or text not in {"-H", "-P"}
        elif has_tests or text.startswith(("-", "(", "!", ",", ")")):
            return f"`find` with {text} is not on the list of harmless commands."
        else:
            why = command.checker.read_doubt(word, list(command.cwds))
            if why:
                return why
    return ""


def _check_cd(command: ParsedCommand) -> str:
    if len(command.words) != 2 or command.words[1].value.startswith("-"):
        return "The folder that it changes to is known only at run time."
    return command.checker.read_doubt(command.words[1], list(command.cwds))


def _check_set(command: ParsedCommand) -> str:
    values = command.arguments
    is_known = re.fullmatch(r"(-[euxo]+( pipefail)? ?)+", " ".join(values) + " ")
    sets_option = any(value.startswith("-") and "o" in value for value in values)
    if values and is_known and (not sets_option or "pipefail" in values):
        return ""
    return "It changes how the shell works."


def _check_command(command: ParsedCommand) -> str:
    return "" if command.arguments[:1] in (["-v"], ["-V"]) else _wraps("command")


def _check_version(command: ParsedCommand) -> str:
    if command.arguments in (["--version"], ["-V"]):
        return ""
    name = command.words[0].value
    return f"`{name}` runs programs, or is not on the list of harmless commands."


def _check_text_only(command: ParsedCommand) -> str:
    """Check `echo` and `test`, whose only dangerous options are those of `test`."""
    is_test = command.words[0].value != "echo"
    if is_test and not {"-v", "-R"}.isdisjoint(command.arguments):
        return "`test -v` runs the commands in the index of a variable."
    if any(word.glob for word in command.words):
        return GLOB_AS_TEXT
    return ""


def _check_env(command: ParsedCommand) -> str:
    return "It shows the environment, which may contain secrets."


_SPECIAL: dict[str, Callable[[ParsedCommand], str]] = {
    "find": _check_find,
    "cd": _check_cd,
    "set": _check_set,
    "command": _check_command,
    "env": _check_env,
    "printenv": _check_env,
    "echo": _check_text_only,
    "test": _check_text_only,
    **dict.fromkeys(
        "python python3 node bash gcc clang ruff uv make cmake docker".split(), _check_version
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
# Not `--check`, with which they read the files that a list names.
_SUM = Program("btw", longs="binary text tag status quiet strict warn ignore-missing zero")
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
    # Without `-f`, with which it would not end.
    "tail": Program("qvz", "nc", "quiet verbose", "lines bytes", numbers=True),
    # Without `--files0-from`, which reads the files that a list names.
    "wc": Program("lwcmL", longs="lines words bytes chars max-line-length"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    # Without `--pre` and `--hostname-bin`, which run a program, and `-z`, which runs decompressors.
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
        deep="*",
        check=_check_globs,
    ),
    # Without `-o`, which writes a file, and `--compress-program`, which runs a program.
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
        # A second operand would be the output file.
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
    # Without `-i`, which changes files, and `-f`, whose script would not be checked.
    "sed": Program(
        "nErsuz",
        "e",
        "quiet silent regexp-extended",
        "expression",
        operands="first",
        instead="-e --expression",
        check=_check_sed,
    ),
    # Without `-f`, whose program would not be checked.
    "awk": Program("", "F", operands="first", check=_check_awk),
    "gawk": Program("", "F", operands="first", check=_check_awk),
    # Without `-f`, whose program would not be checked, and `--slurpfile`, which reads another file.
    "jq": Program(
        "rcSesMCj",
        "",
        "raw-output compact-output sort-keys exit-status slurp tab",
        operands="first",
        check=_check_jq,
    ),
    # Without `--output`, which writes a file.
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
    # Without `-C`, which writes a file.
    "file": Program("bhikLNpr", longs="brief mime mime-type mime-encoding"),
    "stat": Program("Lft", "c", "dereference terse", "format printf"),
    "du": Program(
        "abcDhHklLmsSx0",
        "d",
        "all summarize human-readable total apparent-size",
        "max-depth exclude",
    ),
    "df": Program("aBhHiklPTx", "", "human-readable all inodes portability print-type"),
    # Without `-o`, which writes a file.
    "tree": Program("adfiLpshugDFrtCnNA", "PI", "dirsfirst noreport gitignore prune filelimit", ""),
    "basename": Program("az", "s", operands="text"),
    "dirname": Program("z", operands="text"),
    "realpath": Program("emsqLPz", longs="relative-to relative-base"),
    "readlink": Program("efmnqsvz"),
    "which": Program("a", operands="text"),
    "type": Program("aftpP", operands="text"),
    # Without `-s`, which sets the clock.
    "date": Program(
        "uIR", "d", "utc iso-8601 rfc-3339", "date", operands="text", check=_check_date
    ),
    "seq": Program("w", "fs", operands="text", most=3),
    "sleep": Program(operands="text", check=_check_sleep, least=1),
    "whoami": Program(operands="none"),
    "id": Program("ugnGr", operands="none"),
    "groups": Program(operands="none"),
    # An operand would set the name of the machine.
    "hostname": Program("s", operands="none"),
    "uname": Program("asnrvmpio", longs="all", operands="none"),
    "uptime": Program("ps", operands="none"),
    "free": Program("bkmght", longs="human", operands="none"),
    "nproc": Program(longs="all", operands="none"),
    "lscpu": Program(operands="none"),
    "tty": Program(operands="none"),
    "ps": Program("efFlAaux", "pCu", "", "sort", operands="text", check=_check_ps),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "cksum": Program(),
    "b2sum": _SUM,
}
