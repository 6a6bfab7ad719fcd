"""Read the effects of simple commands, program by program, as ``CommandEffects``.

A program that no table in this module describes, and that ``program_files`` does not know
completely, may do anything with the files that its arguments name. Paths stay as written;
``resolved_effects`` resolves them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise

import attrs

from hilum_guard.commands.verdicts import SimpleCommand, program_name
from hilum_guard.effects import (
    git_effects,
    ignored_files,
    interpreted_code,
    network_use,
    program_files,
)
from hilum_guard.effects.file_access import (
    UNKNOWN,
    CommandEffects,
    FileAccess,
    FindQuery,
    FoundFiles,
)
from hilum_guard.effects.file_search import split_find_words
from hilum_guard.effects.invocation import Invocation
from hilum_guard.programs import options
from hilum_guard.programs.options import Parsed

ANY_FILE = "any file"
"""Stands for any file below a searched folder, so that rules about the whole folder match."""

# Programs that do not open the files that their arguments name.
_TEXTUAL = frozenset(
    """: [ alias basename cd command date declare dirname echo env exit export false getconf
    groups hash help hostname id jobs kill local logname man nproc popd printf ps pushd pwd read
    readonly return seq set shift sleep test time times tr trap true tty type typeset ulimit umask
    uname unalias unset uptime users wait which who whoami yes""".split()
)
# Programs that show the names, sizes and types of files, but not their contents.
_LISTERS = frozenset(
    "ls dir tree du df file stat readlink realpath find gfind fd fdfind lsattr getfacl".split()
)
# Programs that read the given files and, with these options (`*`: always), everything below them.
_READERS: dict[str, str] = {
    **dict.fromkeys(
        """cat head tail less more wc nl tac rev cut paste join comm cmp column fold fmt expand
        unexpand od hexdump base64 base32 md5sum sha1sum sha256sum sha512sum b2sum cksum sum
        strings jq bat batcat zcat bzcat xzcat diff sdiff look iconv gzcat zless basenc
        sort""".split(),
        "",
    ),
    **dict.fromkeys("rg ag ack".split(), "*"),
    **dict.fromkeys("grep egrep fgrep zgrep".split(), "rR"),
}
_PATTERN_FIRST = frozenset(
    "grep egrep fgrep zgrep rg ag ack jq yq look sed gsed awk gawk mawk perl ruby".split()
)
# With one of these options, every operand is a path.
_PATTERN_OPTIONS = (
    "-e",
    "-f",
    "--regexp",
    "--expression",
    "--file",
    "--files",
    "--source",
    "--from-file",
)
_MODE = re.compile(r"-[rwxXstugo,+=-]+")
"""A `chmod` mode that removes permissions and looks like an option."""
_HISTORY_VIEWERS = frozenset("gitk tig lazygit gitui".split())
# Variables that select another repository.
_GIT_FOLDERS = frozenset(
    "GIT_DIR GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES".split()
)
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-?place")
_ANY_OPTIONS = options.Syntax()
_CHCON_LABELS = "-u -r -t -l --user --role --type --range".split()
_NAMING_TESTS = frozenset("-name -iname -path -ipath -wholename".split())
# The options with which programs leave out files.
_EXCLUDING = {
    **dict.fromkeys("tar gtar bsdtar mypy".split(), frozenset(("--exclude",))),
    **dict.fromkeys(("ruff", "flake8"), frozenset(("--exclude", "--extend-exclude"))),
    "black": frozenset(("--exclude", "--extend-exclude", "--force-exclude")),
    "bandit": frozenset(("-x", "--exclude")),
    "eslint": frozenset(("--ignore-pattern",)),
    "isort": frozenset("-s --skip --sg --skip-glob --extend-skip --extend-skip-glob".split()),
    "pytest": frozenset(("--ignore", "--ignore-glob", "--deselect")),
    "zip": frozenset(("-x", "--exclude")),
}
# What Docker Compose does without showing its variables.
_COMPOSE_QUIET = frozenset(
    "up down start stop restart build pull push ps create rm kill pause unpause".split()
)
_COMPOSE_VALUED = frozenset(
    "-f --file -p --project-name --profile --env-file --project-directory --ansi --progress".split()
)
_VARIABLES = frozenset(("--env-file",))
_CHANGES = frozenset(("write", "delete", "link"))
_PATCH_INPUT = options.valued_only(frozenset("-p -F -V -B -Y -z -g -d -D -i -o -r --input".split()))


def read_effects(command: SimpleCommand) -> CommandEffects:
    """Return the effects of a simple command. Reads folders and patches on the disk."""
    call = _make_invocation(command, command.words)
    for path in command.writes:
        call.access("write", path)
    for path in command.reads:
        call.access("read", path)
    if not command.words:
        return CommandEffects(files=tuple(call.files))
    _read_program(call, command)
    code = interpreted_code.read_code(command)
    contact = network_use.Contact()
    script = None
    # A wrapper only runs the next command, which is read separately.
    if not command.wrapper:
        contact = network_use.read_contact(call.name, call.words)
        script = code.script
    return CommandEffects(
        program=call.name,
        files=tuple(call.files),
        found=(*call.found, *_read_found_files(command)),
        hosts=contact.hosts,
        network=contact.network,
        code=code.texts,
        script=script,
        code_origin="" if command.wrapper else code.origin,
        unknown=call.unknown,
    )


def _make_invocation(command: SimpleCommand, words: tuple[str, ...]) -> Invocation:
    cwds = command.cwds or (command.cwd,)
    return Invocation(program_name(words), words[1:], cwds, command.stdin, command.reads)


def _read_program(call: Invocation, command: SimpleCommand) -> None:
    left_out: tuple[str, ...] | None = None
    for access in program_files.find_file_uses(call.name, call.words, call.stdin):
        if access.generated and access.existing and call.name in ignored_files.READERS:
            if left_out is None:
                left_out = ignored_files.find_left_out(call.words, call.cwds)
            access = attrs.evolve(access, left_out=left_out)
        call.add(access)
    if command.wrapper:
        return
    # The program is unknown, so its arguments cannot be interpreted.
    if UNKNOWN in command.words[0]:
        call.unknown = "all"
    elif call.name == "git":
        git_effects.read_git(
            call,
            is_here=_GIT_FOLDERS.isdisjoint(command.assigned),
            has_tree="GIT_WORK_TREE" in command.assigned,
        )
    elif call.name in _HISTORY_VIEWERS:
        # These programs show patches, and take the same arguments as `git log`.
        call.words = ("log", "-p", *call.words)
        git_effects.read_git(call)
    else:
        _read_by_table(call)


def _read_by_table(call: Invocation) -> None:
    syntax = options.SYNTAX.get(call.name, _ANY_OPTIONS)
    if call.name == "rsync":
        syntax = program_files.TABLE["rsync"].syntax
    parsed = options.parse(call.words, syntax)
    if parsed.unknown and not _is_mode(call):
        # An unknown option may take the next word as its value or read a file, so it is uncertain
        # which words are files.
        call.mention(call.words)
    _read_option_files(call, parsed, syntax.reads)
    if call.name in _TEXTUAL | _LISTERS or program_files.is_known(call.name):
        return
    reader = _PROGRAMS.get(call.name)
    if reader is not None:
        reader(call, parsed)
    elif call.name in _READERS:
        _read_contents(call, parsed)
    else:
        call.mention(_without_left_out(call))


def _passes_variables(call: Invocation) -> bool:
    """Return whether a command passes a file of variables to services, and shows nothing of it.

    `docker compose up` would read `.env` without the option, too; `docker compose config` shows it.
    """
    words = list(call.words)
    if call.name in ("docker", "podman"):
        if words[:1] != ["compose"]:
            return False
        words = words[1:]
    elif call.name not in ("docker-compose", "podman-compose"):
        return False
    while words and words[0].startswith("-"):
        is_pair = words[0] in _COMPOSE_VALUED
        words = words[2 if is_pair else 1 :]
    return bool(words) and words[0] in _COMPOSE_QUIET


def _without_left_out(call: Invocation) -> list[str]:
    """Return a program's words without those that only name files to leave out."""
    excluding = _EXCLUDING.get(call.name, frozenset())
    if _passes_variables(call):
        excluding |= _VARIABLES
    words: list[str] = []
    before = ""
    for word in call.words:
        is_value = before in excluding and not word.startswith(("-", "@"))
        if not is_value and word.partition("=")[0] not in excluding:
            words.append(word)
        # `zip -x` takes all words up to the next option.
        if not (is_value and call.name == "zip"):
            before = word
    return words


def _read_option_files(call: Invocation, parsed: Parsed, reads: frozenset[str]) -> None:
    """Add the files that options name as input."""
    for option, value in parsed.options:
        if option not in reads:
            continue
        call.access("read", value)
        if option in options.LISTS or (call.name == "file" and option == "-f"):
            call.unknown = "all"  # the file contains names of other files


# --- files that a search finds --------------------------------------------------------------------


def _read_found_files(command: SimpleCommand) -> tuple[FoundFiles, ...]:
    """Return what a command that `find` runs does to the found files."""
    if not command.found:
        return ()
    return tuple(_read_found_in(command, cwd) for cwd in command.cwds or (command.cwd,))


def _read_found_in(command: SimpleCommand, cwd: str | None) -> FoundFiles:
    action = command.finder[command.finder_at]
    command = attrs.evolve(command, cwds=(cwd,))
    call = _make_invocation(command, command.found)
    if action == "-delete":
        call.access("delete", "{}")
    else:
        _read_program(call, attrs.evolve(command, words=command.found))
    files = [access for access in call.files if access.kind in _CHANGES]
    otherwise = []
    for pattern in _find_patterns(command.finder):
        for access in files:
            path = access.path.replace("{}", pattern.path)
            otherwise.append(attrs.evolve(access, path=path, deep=pattern.deep))
    if action in ("-execdir", "-okdir"):
        files = [_move_to_found(access) for access in files]
    query = FindQuery(command.finder, command.finder_at, cwd)
    return FoundFiles(query, tuple(files), tuple(otherwise))


def _move_to_found(access: FileAccess) -> FileAccess:
    """Return an access relative to a found file's folder, which may be any folder."""
    if "{}" in access.path or access.path.startswith(("/", "~")):
        return access
    return attrs.evolve(access, path=f"{UNKNOWN}/{access.path}")


def _find_patterns(finder: tuple[str, ...]) -> list[FileAccess]:
    """Return patterns for what `find` may find: its folders, or the names in its tests."""
    starts, tests = split_find_words(finder)
    names = []
    for word, following in pairwise(tests):
        if word in _NAMING_TESTS:
            names.append(following)
    if not names:
        return [FileAccess("any", start, deep="all") for start in starts]
    paths = [os.path.join(start, "**", name) for start in starts for name in names]
    return [FileAccess("any", path) for path in paths]


# --- programs -------------------------------------------------------------------------------------


def _read_removal(call: Invocation, parsed: Parsed) -> None:
    for path in parsed.operands:
        call.access("delete", path, deep="all")


def _read_copy(call: Invocation, parsed: Parsed) -> None:
    if call.name in ("install", "ginstall") and parsed.has("-d", "--directory"):
        return  # `program_files` adds the folders that `install` makes
    *sources, target = _get_sources_and_target(parsed)
    call.copy(sources, target, moves=call.name in ("mv", "gmv"))
    if parsed.has("-l", "--link"):
        for source in sources:
            call.access("link", source)


def _get_sources_and_target(parsed: Parsed) -> list[str]:
    folder = "".join(parsed.values("-t", "--target-directory")[:1])
    if folder:
        return [*parsed.operands, folder]
    return list(parsed.operands) or [""]


def _read_link(call: Invocation, parsed: Parsed) -> None:
    """Read `ln`: the new name gives access to the file."""
    names = _get_sources_and_target(parsed)
    if len(names) == 1:
        names.append(os.path.basename(names[0].rstrip("/")))
    *sources, target = names
    for source in sources:
        call.access("link", source)
        call.access("read", source)
    call.place(sources, target)


def _read_rename(call: Invocation, parsed: Parsed) -> None:
    """Read `rename EXPRESSION FILES`."""
    for path in parsed.operands[1:]:
        call.access("delete", path, deep="all", moved=True)
        call.access("write", os.path.dirname(path) or ".", deep="some")


def _read_attributes(call: Invocation, parsed: Parsed) -> None:
    deep = parsed.has("-R", "--recursive")
    for path in _get_changed(call, parsed):
        call.access("write", path, deep="all" if deep else "", existing=True)


def _read_stream_editor(call: Invocation, parsed: Parsed) -> None:
    """Read `sed`, `awk`, `perl` and `ruby`; `program_files` adds the files that `-i` changes."""
    is_plain = call.name in ("sed", "gsed") and _is_plain_sed(call)
    uses_gawk_library = "inplace" in call.words
    if uses_gawk_library or any(_IN_PLACE.match(word) for word in call.words):
        if not is_plain:
            call.unknown = "all"
        if uses_gawk_library:
            for path in _get_file_operands(call.name, parsed)[1:]:
                call.access("write", path, existing=True)
    elif is_plain:
        _read_contents(call, parsed)
    else:
        call.mention(call.words)


def _get_file_operands(name: str, parsed: Parsed) -> list[str]:
    """Return the operands that are files, not scripts or patterns."""
    operands = list(parsed.operands)
    if name in _PATTERN_FIRST and not parsed.has(*_PATTERN_OPTIONS):
        return operands[1:]
    return operands


def _read_writer(call: Invocation, parsed: Parsed) -> None:
    for path in parsed.operands:
        call.access("write", path)


def _read_editor(call: Invocation, parsed: Parsed) -> None:
    """Add the files that an editor opens; `program_files` reads the editor's own commands."""
    call.unknown = "all"
    for path in parsed.operands:
        if not path.startswith("+"):
            call.access("read", path)


def _read_dd(call: Invocation, parsed: Parsed) -> None:
    for word in call.words:
        name, _, path = word.partition("=")
        if name in ("of", "if") and path:
            call.access("write" if name == "of" else "read", path)


def _read_patch(call: Invocation, parsed: Parsed) -> None:
    given = options.parse(call.words, _PATCH_INPUT)
    # `patch FILE` changes FILE, whichever names the patch contains.
    if not given.operands and not call.patch(call.words, given.values("-i", "--input")):
        call.access("write", UNKNOWN)
    call.mention(call.words)


def _read_filter(call: Invocation, parsed: Parsed) -> None:
    """Read `uniq` and `xxd`, whose second operand is their output file."""
    for number, path in enumerate(parsed.operands):
        call.access("write" if number else "read", path)


def _read_yq(call: Invocation, parsed: Parsed) -> None:
    if any(re.match(r"-[a-zA-Z]*i|--inplace|--in-place", word) for word in call.words):
        for path in parsed.operands[1:]:
            call.access("write", path, existing=True)
    elif any(word.startswith(("-s", "--split")) for word in call.words):
        call.mention(call.words)
    else:
        _read_contents(call, parsed)


def _read_openssl(call: Invocation, parsed: Parsed) -> None:
    if any(word.startswith(("-s", "-out")) for word in call.words):
        call.mention(call.words)
    else:
        _read_contents(call, parsed)


def _read_xargs(call: Invocation, parsed: Parsed) -> None:
    """Read `xargs` itself; the command that it runs is read separately."""
    call.mention(call.words)
    call.unknown = "reads"


def _read_contents(call: Invocation, parsed: Parsed) -> None:
    searches = _reads_everything_below(call.name, parsed)
    if searches and not call.unknown:
        call.unknown = "reads"
    for path in _get_file_operands(call.name, parsed):
        call.access("read", path)
        if searches and UNKNOWN not in path and call.is_folder(path):
            call.access("read", os.path.join(path, ANY_FILE))


_PROGRAMS: dict[str, Callable[[Invocation, Parsed], None]] = {
    **dict.fromkeys(
        "rm grm rmdir unlink shred srm trash trash-put gio rimraf del wipe".split(), _read_removal
    ),
    **dict.fromkeys("mv gmv cp gcp install ginstall rsync scp ditto".split(), _read_copy),
    "ln": _read_link,
    **dict.fromkeys("rename prename mmv".split(), _read_rename),
    **dict.fromkeys(
        "chmod chown chgrp setfacl chattr chflags chcon setfattr".split(), _read_attributes
    ),
    **dict.fromkeys("sed gsed perl ruby awk gawk mawk".split(), _read_stream_editor),
    **dict.fromkeys(
        "tee truncate touch mkdir mkfifo mknod nano pico emacs joe sponge".split(), _read_writer
    ),
    **dict.fromkeys("ed ex vi vim nvim".split(), _read_editor),
    "dd": _read_dd,
    "patch": _read_patch,
    **dict.fromkeys("uniq xxd".split(), _read_filter),
    "yq": _read_yq,
    "openssl": _read_openssl,
    "xargs": _read_xargs,
    "gxargs": _read_xargs,
}


def _is_mode(call: Invocation) -> bool:
    """Return whether all unknown options of `chmod` are the mode (`chmod -w FILE`)."""
    if call.name != "chmod":
        return False
    rest = [word for word in call.words if not _MODE.fullmatch(word)]
    return not options.parse(rest, options.SYNTAX["chmod"]).unknown


def _get_changed(call: Invocation, parsed: Parsed) -> tuple[str, ...]:
    """Return the files among the operands of `chmod`, `chown` and similar programs."""
    match call.name:
        case "setfacl" | "setfattr":
            only_files = True
        case "chmod":
            only_files = any(_MODE.fullmatch(word) for word in call.words)
        case "chcon":
            only_files = parsed.has(*_CHCON_LABELS)
        case "chattr":
            only_files = any(re.match(r"-(?![RVfvp]+$)", word) for word in call.words)
        case _:
            only_files = False
    return parsed.operands if only_files or parsed.has("--reference") else parsed.operands[1:]


def _reads_everything_below(name: str, parsed: Parsed) -> bool:
    """Return whether a program reads everything below the folders among its operands."""
    deep = _READERS.get(name, "")
    if deep == "*" or "recurse" in parsed.values("-d", "--directories"):
        return True
    if name == "diff":
        return parsed.has("-r", "--recursive")
    return bool(deep) and parsed.has("-r", "-R", "--recursive", "--dereference-recursive")


# --- sed ------------------------------------------------------------------------------------------


def _is_plain_sed(call: Invocation) -> bool:
    """Return whether every `sed` script only prints, deletes or replaces text.

    `sed` commands such as `w` and `e` do more.
    """
    parsed = options.parse(call.words, options.SYNTAX["sed"])
    if parsed.has("-f", "--file"):
        return False
    scripts = parsed.values("-e", "--expression") or list(parsed.operands[:1])
    return all(_PLAIN_SED.fullmatch(script) for script in scripts)


_ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
_PART = r"(?:\\[^\n]|(?!\1)[^\n\\])*"
_SUBSTITUTE = rf"s([/|#,:@]){_PART}\1{_PART}\1[gpiI0-9]*"
_PLAIN_SED = re.compile(
    rf"(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?)?\s*(?:!\s*)?(?:[pdqQ=]|{_SUBSTITUTE})"
)
