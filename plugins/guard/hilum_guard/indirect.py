"""Commands that a text runs without naming them: through variables, through files that it writes,
links and copies first.

What can be read is read; what only the run would tell is noted as unknown. All of it is implied:
rules that ask or deny are held against it, and nothing else.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from hilum_guard import git_aliases
from hilum_guard.programs import SHELLS, operands_at, program
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from hilum_guard.reading import Reader
    from hilum_guard.simple import Simple

# Variables whose value a program runs: the documentation of Git, less, man, systemd, rsync, psql
# and the shells.
COMMAND_VARIABLES = frozenset(
    """GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS
    GIT_MERGE_AUTOEDIT_EDITOR SSH_ASKPASS SUDO_ASKPASS PAGER MANPAGER SYSTEMD_PAGER SYSTEMD_EDITOR EDITOR VISUAL SUDO_EDITOR
    FCEDIT PSQL_EDITOR PSQL_PAGER BROWSER LESSOPEN LESSCLOSE LESSEDIT RSYNC_RSH CVS_RSH SVN_SSH SVN_EDITOR HGEDITOR
    PROMPT_COMMAND""".split()
)
# Variables that name a file which a shell reads at its start, or a folder with such files.
SCRIPT_VARIABLES = {"BASH_ENV": ("",), "ENV": ("",), "ZDOTDIR": (".zshenv", ".zshrc", ".zprofile")}
# Prompts: a shell runs the substitutions in them.
PROMPTS = frozenset("PS0 PS1 PS2 PS4".split())
# Variables that have another program run code, and the values of which that is true. Code in other
# languages is not read.
CODE_VARIABLES = {
    "PERL5OPT": re.compile(r"\S"),
    "PERL5DB": re.compile(r"\S"),
    "PYTHONSTARTUP": re.compile(r"\S"),
    "NODE_OPTIONS": re.compile(r"(^|\s)(-r|--require|--import|--loader|--experimental-loader)\b"),
    "RUBYOPT": re.compile(r"(^|\s)-\w*r"),
    "JAVA_TOOL_OPTIONS": re.compile(r"-(javaagent|agentpath|agentlib)"),
    "LD_PRELOAD": re.compile(r"\S"),
    "LD_AUDIT": re.compile(r"\S"),
    "DYLD_INSERT_LIBRARIES": re.compile(r"\S"),
    "TAR_OPTIONS": re.compile(r"action|-command|-F"),
}
# Programs that name a file without changing it into a script.
_NO_WRITERS = SHELLS | frozenset(
    """. source cat ls head tail less more wc grep egrep fgrep rg chmod chown test [ [[ stat file diff cmp shellcheck shfmt
    touch rm mkdir tee echo printf pytest ruff mypy black bat which type command readlink realpath basename dirname md5sum
    sha256sum cc gcc g++ clang clang++ rustc go ld make cmake nvcc strip timeout time env nohup nice exec sudo xargs""".split()
)
_GIT_READERS = frozenset("add commit diff status log show blame ls-files rev-parse".split())
_COPIERS = frozenset("cp gcp ln gln mv gmv install ginstall".split())
# They fill whole folders, and the files in them are not among their words.
_FILLERS = _COPIERS | frozenset("rsync tar bsdtar unzip 7z git hg svn patch".split())
_RECIPES = {
    "make": ("makefile", "gnumakefile"),
    "gmake": ("makefile", "gnumakefile"),
    "just": ("justfile", ".justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
}
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/nix/")
MAX_SED = 10_000
_SED_EXECUTE = re.compile(r"(?:^|[;{}\n])(?:[0-9$~+,! \t]|/(?:\\.|[^/\n\\])*/[IM]*)*e([^\n]*)")
_SED_SUBSTITUTE = re.compile(
    r"(?<![\w\\])s([^\w\s\\])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\])*\1[gpiIMm0-9]*e", re.S
)


def assign(reader: Reader, name: str, value: str) -> None:
    """Read on in what a variable has a program run."""
    before = len(reader.found)
    if name in COMMAND_VARIABLES:
        reader.read_nested(value.lstrip("|-@ "))
    elif name in PROMPTS and ("$(" in value or "`" in value or UNKNOWN in value):
        reader.read_nested(f': "{value}"')
    elif name in SCRIPT_VARIABLES and value:
        for inner in SCRIPT_VARIABLES[name]:
            script = os.path.join(value, inner) if inner else value
            reader.run_inner(_none(reader), (Word("."), Word(script)))
        if UNKNOWN in value or "$" in value or "`" in value:
            reader.note_unknown()
    elif name in CODE_VARIABLES and (UNKNOWN in value or CODE_VARIABLES[name].search(value)):
        reader.note_unknown()
    reader.imply(before)


def _none(reader: Reader) -> Simple:
    from hilum_guard.simple import Simple

    return Simple((), cwds=reader.state.cwds)


def follow(reader: Reader, simple: Simple, name: str, output: str | None, number: int) -> None:
    """Read on in what a command runs by another name, and note what it leaves for later ones.

    Args:
        reader: Reads the text.
        simple: The command.
        name: Its program.
        output: What it prints; None if that is not known.
        number: Where the command is in ``reader.found``; all before it run earlier.
    """
    before = len(reader.found)
    if not simple.places.contained:
        _run_git_program(reader, simple, name)
        if name in ("sed", "gsed"):
            _sed(reader, simple)
        linked = _run_linked(reader, simple, name)
        _run_written(reader, simple, name, reader.found[:number], linked)
    reader.imply(before)
    note_writes(reader, simple, output)
    _note_copies(reader, simple, name)


def _run_git_program(reader: Reader, simple: Simple, name: str) -> None:
    """`/usr/lib/git-core/git-push` is `git push`."""
    verb = name.removeprefix("git-")
    if verb != name and (verb in git_aliases.BUILT_IN or (verb,) in git_aliases.SAME):
        reader.run_inner(simple, (Word("git"), Word(verb), *simple.words[1:]))


def _sed(reader: Reader, simple: Simple) -> None:
    """The command `e` of `sed`, and the flag `e` of its `s`, give a text to a shell."""
    for script in _sed_scripts(simple.words):
        if len(script) > MAX_SED or UNKNOWN in script:
            reader.note_unknown()
            continue
        for found in _SED_EXECUTE.finditer(script):
            if found[1].strip(" \t;}"):
                reader.read_nested(found[1].strip())
            else:
                reader.note_unknown()  # it runs the line that was read
        if _SED_SUBSTITUTE.search(script):
            reader.note_unknown()  # it runs what the substitution gives


def _sed_scripts(words: tuple[Word, ...]) -> list[str]:
    scripts: list[str] = []
    operands: list[str] = []
    values = [word.value for word in words[1:]]
    at = 0
    while at < len(values):
        value = values[at]
        following = values[at + 1] if at + 1 < len(values) else ""
        at += 1
        if value == "--":
            operands += values[at:]
            break
        if value.startswith("--"):
            option, equals, attached = value.partition("=")
            if option in ("--expression", "--file", "--line-length") and not equals:
                attached = following
                at += 1
            if option == "--expression":
                scripts.append(attached)
        elif found := re.fullmatch(r"-[nrsuzEb]*(?:i.*)?([efl])(.*)", value, re.DOTALL):
            attached = found[2]
            if not attached:
                attached = following
                at += 1
            if found[1] == "e":
                scripts.append(attached)
        elif not value.startswith("-") or value == "-":
            operands.append(value)
    has_script = bool(scripts) or any(re.match(r"-\w*f|--file", value) for value in values)
    return scripts if has_script else operands[:1]


# --- links and copies -----------------------------------------------------------------------------


def _note_copies(reader: Reader, simple: Simple, name: str) -> None:
    """Note the names that a program gets by a link or a copy."""
    operands = [word.value for word in simple.words[operands_at(simple.words, "StmgoT") :]]
    if name == "hash" and len(simple.words) == 4 and simple.words[1].value == "-p":
        reader.copies.setdefault(simple.words[3].value, []).append(simple.words[2].value)
    if name not in _COPIERS or not operands:
        return
    if len(operands) == 1:
        operands.append(".")
    *sources, target = operands
    for source in sources:
        if "/" not in source:  # a file of the folder, and no program to look for
            present = [path for path in _paths(source, simple) if os.path.exists(path)]
            source = present[0] if present else source
        for alias in {os.path.basename(target.rstrip("/")), os.path.basename(source)}:
            reader.copies.setdefault(alias, []).append(source)


def _run_linked(reader: Reader, simple: Simple, name: str) -> bool:
    """Read a link or a copy of a program as that program; return whether the command is one."""
    first = simple.words[0].value
    sources = [
        each
        for each in reader.copies.get(os.path.basename(first), ())
        if _base(each) != _base(first)
    ]
    if "/" in first and simple.words[0].known and not first.startswith(_SYSTEM):
        for cwd in simple.cwds:
            path = os.path.join(cwd or "/", os.path.expanduser(first))
            if os.path.islink(path):
                sources.append(os.path.realpath(path))
    for source in dict.fromkeys(sources):
        if UNKNOWN in source:
            reader.note_unknown()
        elif _base(source) != name and reader.implied_depth < 3:
            reader.implied_depth += 1
            try:
                reader.run_inner(simple, (Word(source), *simple.words[1:]))
            finally:
                reader.implied_depth -= 1
    return bool(sources)


def _base(path: str) -> str:
    return os.path.basename(path.rstrip("/")).casefold()


# --- files that the text writes -------------------------------------------------------------------


def note_writes(reader: Reader, simple: Simple, output: str | None) -> None:
    """Note the files that redirections write, with what they get."""
    for redirect in simple.redirects:
        if ">" not in redirect.operator:
            continue
        for path in _paths(redirect.target.value, simple):
            _note_text(reader, path, output, appends=redirect.operator.endswith(">>"))
    if simple.words and program(simple.words[0]) == "tee":
        for word in simple.words[1:]:
            for path in _paths(word.value, simple):
                _note_text(reader, path, simple.stdin, appends=True)


def _note_text(reader: Reader, path: str, text: str | None, *, appends: bool) -> None:
    earlier = reader.written.get(path, "") if appends else ""
    reader.written[path] = None if text is None or earlier is None else earlier + text


def _paths(path: str, simple: Simple) -> list[str]:
    """Return the absolute paths that a word may mean."""
    folders = [cwd for cwd in simple.cwds if cwd is not None]
    return list(
        dict.fromkeys(
            os.path.normpath(os.path.join(cwd, os.path.expanduser(path))) for cwd in folders
        )
    )


def _run_written(
    reader: Reader, simple: Simple, name: str, earlier: list[Simple], linked: bool
) -> None:
    """Read a script as the text wrote it.

    Where the text does not tell what is in it, it may be any command.
    """
    if any(os.path.basename(path).casefold() in _RECIPES.get(name, ()) for path in reader.written):
        reader.note_unknown()
        return
    script, is_shell = _script_of(simple, name)
    if not script or UNKNOWN in script:
        return
    if is_shell:
        for source in reader.copies.get(os.path.basename(script), ()):
            linked = True
            reader.run_inner(simple, (Word("."), Word(source)))
    for path in _paths(script, simple):
        text = reader.written.get(path, "")
        if text:
            reader.read_nested(text)
        is_unaccounted = is_shell and path not in reader.written
        if text is None or (not linked and _is_changed(path, earlier, is_unaccounted)):
            reader.note_unknown()


def _script_of(simple: Simple, name: str) -> tuple[str, bool]:
    """Return the file that a command runs, and whether a shell reads it; empty for none."""
    words = simple.words
    if name in (".", "source"):
        return (words[1].value if len(words) > 1 else ""), True
    if name in SHELLS:
        at = operands_at(words, "oO")
        if at >= len(words) or any(re.fullmatch(r"-\w*c\w*", word.value) for word in words[1:at]):
            return "", True
        return words[at].value, True
    return (words[0].value if "/" in words[0].value else ""), False


def _is_changed(path: str, earlier: list[Simple], is_unaccounted: bool) -> bool:
    """Return whether an earlier command of the text makes or changes a script.

    Args:
        path: The script.
        earlier: The commands before it.
        is_unaccounted: Whether a shell reads it and the text does not say what writes it: where
            there is no such file yet, any earlier command may make it.
    """
    if path.startswith(_SYSTEM) or path.startswith("/dev/"):
        return False
    missing = not os.path.lexists(path)
    if is_unaccounted and missing and any(each.words for each in earlier):
        return True
    for each in earlier:
        if not each.words or not _is_writer(each):
            continue
        fills = missing and program(each.words[0]) in _FILLERS
        for word in _targets(each):
            for named in _paths(word.value.rpartition("=")[2], each):
                if named == path or (
                    fills and path.startswith(named + "/") and named not in each.cwds
                ):
                    return True
    return False


def _targets(simple: Simple) -> tuple[Word, ...]:
    """Return the words of a command that may name what it writes."""
    words = simple.words[1:]
    copies = program(simple.words[0]) in _COPIERS and not any(
        re.match(r"-\w*t|--target", x.value) for x in words
    )
    return words[-1:] if copies else words


def _is_writer(simple: Simple) -> bool:
    name = program(simple.words[0])
    if name == "git":
        return not any(word.value in _GIT_READERS for word in simple.words[1:])
    return name not in _NO_WRITERS
