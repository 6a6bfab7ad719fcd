"""Find the files that programs read, write and delete, from a table of options and operands.

Functions handle what a table cannot express. A row need not be complete to be useful:
``command_effects`` assumes that a program may do anything with the words that its row does not
describe.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import attrs

from hilum_guard.effects.file_access import CHANGED, UNKNOWN, AccessKind, Depth, FileAccess
from hilum_guard.programs.options import Parsed, Syntax, parse, valued_only
from hilum_guard.programs.tables import parse_switch, read_table


@attrs.frozen(slots=False)
class Row:
    """The columns for a program: how its arguments name files.

    Attributes:
        valued: Short options that take a value, besides those in the other columns.
        value_options: Long options that take the next word as their value, besides those in the
            other columns.
        writes: Options whose value is a file that is written.
        folders: Options whose value is a folder in which any file may be written.
        prefixes: Options whose value is a prefix of the names of files that are written.
        reads: Options whose value is a file that is read.
        operand_uses: What happens to the operands, in order: ``r`` is read, ``w`` is written, ``f``
            is a folder that is written to, ``p`` is a prefix of the names of written files, ``-``
            is not a file; a code followed by ``*`` applies to any number of operands.
        whole: Whether options of several letters follow a single dash (`-out FILE`).
        stops: Whether options end with the first operand, because another command follows.
        known: Whether this row describes everything that the program does to files.
        default: The file that is written if neither an option nor an operand names one.
        special: The name of the function in ``_SPECIAL`` that reads what the columns cannot
            express.
        ending: The suffix of a compressed file.
        rewrites: Options and words with which a formatter rewrites its files; if empty, it always
            does.
        checks: Options with which a formatter writes nothing, besides the usual ones.
        verbs: The sub-commands of a formatter that has some; its other sub-commands are not
            described.
        languages: Endings of the files that a formatter rewrites in a folder; empty if unknown.
        everywhere: Whether a formatter without paths rewrites the files in its working folder.
    """

    valued: str = ""
    value_options: str = ""
    writes: str = ""
    folders: str = ""
    prefixes: str = ""
    reads: str = ""
    operand_uses: str = ""
    whole: bool = attrs.field(default=False, converter=parse_switch)
    stops: bool = attrs.field(default=False, converter=parse_switch)
    known: bool = attrs.field(default=False, converter=parse_switch)
    default: str = ""
    special: str = ""
    ending: str = ""
    rewrites: str = ""
    checks: str = ""
    verbs: str = ""
    languages: str = ""
    everywhere: bool = attrs.field(default=False, converter=parse_switch)

    @cached_property
    def option_codes(self) -> dict[str, str]:
        """The codes for the options that name files."""
        codes: dict[str, str] = {}
        codes |= dict.fromkeys(self.reads.split(), "r")
        codes |= dict.fromkeys(self.prefixes.split(), "p")
        codes |= dict.fromkeys(self.folders.split(), "f")
        codes |= dict.fromkeys(self.writes.split(), "w")
        return codes

    @cached_property
    def syntax(self) -> Syntax:
        """The options that take a value, in the form that the option parser needs."""
        shorts = [f"-{letter}" for letter in self.valued]
        valued = frozenset((*shorts, *self.value_options.split(), *self.option_codes))
        return valued_only(valued, whole=self.whole, stops=self.stops)


TABLE = {name: Row(**columns) for name, columns in read_table("files").items()}


def get_download_syntax(name: str) -> Syntax:
    """Return the options of `curl` or `wget` that take a value."""
    return TABLE[name].syntax


class _Call(NamedTuple):
    """A program with its words."""

    name: str
    words: Sequence[str]
    stdin: str | None
    parsed: Parsed
    row: Row

    @property
    def operands(self) -> tuple[str, ...]:
        return self.parsed.operands


def find_file_uses(
    name: str, words: Sequence[str], stdin: str | None = None
) -> Iterator[FileAccess]:
    """Yield what a program does to the files named in its arguments.

    Args:
        name: The program's name in lower case.
        words: The words after it.
        stdin: The text that is piped into the program, if known.
    """
    row = TABLE.get(name)
    if row is None:
        return
    # Old-style options have no dashes, so the parser would mistake them for operands.
    if row.special == "tar":
        words = _add_tar_dashes(words, row)
    parsed = parse(words, row.syntax)
    yield from _read_row(row, parsed)
    if row.special:
        yield from _SPECIAL[row.special](_Call(name, words, stdin, parsed, row))


def is_listed(name: str) -> bool:
    """Return whether ``find_file_uses`` yields the files that a program writes."""
    row = TABLE.get(name)
    return row is not None and not row.verbs


def is_known(name: str) -> bool:
    """Return whether ``find_file_uses`` yields everything that a program does to files."""
    row = TABLE.get(name)
    return row is not None and row.known


def _read_row(row: Row, parsed: Parsed) -> Iterator[FileAccess]:
    by_option = row.option_codes
    uses = [(by_option.get(option, "-"), value) for option, value in parsed.options if value]
    uses += zip(_get_operand_codes(row, len(parsed.operands)), parsed.operands, strict=False)
    if row.default and not any(code in "wfp" for code, _ in uses):
        code = "f" if row.default.endswith("/") else "p"
        uses.append(("w" if row.default == "typescript" else code, row.default))
    for code, path in uses:
        yield from _use(code, path)


def _get_operand_codes(row: Row, count: int) -> list[str]:
    """Return the codes for the operands that a row describes."""
    codes = row.operand_uses.split()
    if codes and codes[-1].endswith("*"):
        codes += codes[-1:] * (count - len(codes))
    return [code[0] for code in codes]


def _use(code: str, path: str) -> Iterator[FileAccess]:
    if code == "r":
        yield FileAccess("read", path)
    elif code == "w":
        yield FileAccess("write", path)
    elif code == "f":
        yield FileAccess("write", path, deep="some")
    elif code == "p":
        # The program adds its own suffixes to the prefix.
        yield FileAccess("write", path)
        yield FileAccess("write", os.path.dirname(path) or ".", deep="some", certain=False)


def _read(paths: Sequence[str]) -> Iterator[FileAccess]:
    return (FileAccess("read", path) for path in paths)


def _write(paths: Sequence[str]) -> Iterator[FileAccess]:
    return (FileAccess("write", path) for path in paths)


def _take_contents(paths: Sequence[str], *, moves: bool) -> Iterator[FileAccess]:
    """Yield a read of each file added to an archive, and a deletion if the file is moved there."""
    for path in paths:
        yield FileAccess("read", path, deep="some")
        if moves:
            yield FileAccess("delete", path, deep="all")


# --- downloads ------------------------------------------------------------------------------------


def _name_downloads(addresses: Sequence[str], folder: str) -> list[str]:
    """Return the files in which downloads are saved, if the URLs determine them."""
    paths = []
    for address in addresses:
        path = re.sub(r"^\w+://", "", re.split(r"[?#]", address)[0])
        name = path.rpartition("/")[2] if "/" in path.rstrip("/") else ""
        if name:
            paths.append(os.path.join(folder, name))
    return paths


def _read_curl(call: _Call) -> Iterator[FileAccess]:
    parsed = call.parsed
    folder = "".join(parsed.values("--output-dir")[:1])
    outputs = [path for path in parsed.values("-o", "--output") if path != "-"]
    addresses = [*call.operands, *parsed.values("--url")]
    if parsed.has("-O", "--remote-name", "--remote-name-all"):
        yield from _write(_name_downloads(addresses, folder))
        if parsed.has("-J", "--remote-header-name"):
            yield FileAccess("write", folder or ".", deep="some", certain=False)
    yield from _write([os.path.join(folder, path) for path in outputs])
    yield from _read(_find_uploads(parsed))
    for address in addresses:
        # curl also copies local files.
        if address.lower().startswith("file://"):
            yield FileAccess("read", re.sub(r"(?i)^file://[^/]*", "", address))


def _find_uploads(parsed: Parsed) -> list[str]:
    """Return the files whose contents `curl` sends as cookies, data or form fields."""
    # If a cookie argument contains no `=`, curl reads it as the name of a file with cookies.
    paths = [value for value in parsed.values("-b", "--cookie") if "=" not in value]
    for value in parsed.values(*_CURL_DATA):
        # `@FILE`, and `NAME@FILE` for `--data-urlencode`, send a file's contents (curl(1)).
        name, _, path = value.partition("@")
        if path and "=" not in name:
            paths.append(path)
    for value in parsed.values("-F", "--form"):
        paths += re.findall(r"=[@<]([^;,]+)", value)
    return paths


_CURL_DATA = ("-d", "--data", "--data-binary", "--data-ascii", "--json", "--data-urlencode")


def _read_wget(call: _Call) -> Iterator[FileAccess]:
    outputs = call.parsed.values("-O", "--output-document")
    if outputs:
        yield from _write(outputs)
        return
    folder = "".join(call.parsed.values("-P", "--directory-prefix")[-1:])
    # The server may choose the file name, and `-r` creates folders.
    yield FileAccess("write", folder or ".", deep="some", certain=False)
    yield from _write(_name_downloads(call.operands, folder))


# --- archives -------------------------------------------------------------------------------------


def _read_zip(call: _Call) -> Iterator[FileAccess]:
    if not call.operands or call.operands[0] == "-":
        return
    archive, *paths = call.operands
    left_out = _list_after(call.words, ("-x", "-i", "--exclude", "--include"))
    paths = [path for path in paths if path not in left_out]
    yield FileAccess("write", archive)
    # `zip` adds its suffix to a name that has none.
    if "." not in os.path.basename(archive):
        yield FileAccess("write", f"{archive}.zip")
    yield from _take_contents(paths, moves=call.parsed.has("-m", "--move"))


def _list_after(words: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the words after some options, up to the next option or `@`."""
    found = set()
    is_value = False
    for word in words:
        if word.startswith(("-", "@")):
            is_value = word in names
        elif is_value:
            found.add(word)
    return found


_UNZIP_SHOWS = ("-l", "-t", "-v", "-z", "-Z", "-p", "-c")


def _read_unzip(call: _Call) -> Iterator[FileAccess]:
    yield from _read(call.operands[:1])
    # With one of these options, it lists, tests or prints the contents.
    if not call.parsed.has(*_UNZIP_SHOWS):
        folder = "".join(call.parsed.values("-d")[-1:])
        yield FileAccess("write", folder or ".", deep="some")


def _read_seven_zip(call: _Call) -> Iterator[FileAccess]:
    plain = [word for word in call.words if not word.startswith("-")]
    verb = "".join(plain[:1])
    archive = plain[1:2]
    if verb in ("x", "e"):
        folders = [word[2:] for word in call.words if re.match(r"-o.", word)]
        yield FileAccess("write", folders[0] if folders else ".", deep="some")
        yield from _read(archive)
    elif verb in ("a", "d", "u", "rn"):
        yield from _write(archive)
        if verb in ("a", "u"):
            yield from _take_contents(plain[2:], moves="-sdel" in call.words)


_TAR_ADDS = frozenset("-c -r -u -A --create --append --update --concatenate --delete".split())


def _read_tar(call: _Call) -> Iterator[FileAccess]:
    parsed = call.parsed
    folder = "".join(parsed.values("-C", "--directory")[-1:])
    archives = parsed.values("-f", "--file")
    if parsed.has(*_TAR_ADDS):
        yield from _write(archives)
        paths = [os.path.join(folder, path) for path in call.operands]
        yield from _take_contents(paths, moves=parsed.has("--remove-files"))
        return
    yield from _read(archives)
    if parsed.has("-x", "--extract", "--get"):
        yield FileAccess("write", folder or ".", deep="some")


def _add_tar_dashes(words: Sequence[str], row: Row) -> Sequence[str]:
    """Return the words of `tar` with old-style options (`cfz FILE`) written with dashes.

    The values of old-style options follow in the order of their letters.
    """
    if not words or words[0].startswith("-"):
        return words
    letters, *rest = words
    dashed: list[str] = []
    for letter in letters:
        dashed.append(f"-{letter}")
        if letter in row.syntax.valued and rest:
            dashed.append(rest.pop(0))
    return [*dashed, *rest]


_NO_COMPRESSED_FILE = ("-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list", "-o")


def _read_compressor(call: _Call) -> Iterator[FileAccess]:
    parsed = call.parsed
    ending = call.row.ending
    unpacks = parsed.has("-d", "--decompress", "--uncompress") or "un" in call.name
    is_deep = parsed.has("-r", "--recursive")
    # Unlike the other programs, zstd and lz4 keep the original file by default.
    keeps = parsed.has("-k", "--keep") or ending in (".zst", ".lz4")
    for path in call.operands:
        yield FileAccess("read", path, deep="some" if is_deep else "")
        if parsed.has(*_NO_COMPRESSED_FILE):
            continue
        if is_deep:
            yield FileAccess("write", path, deep="some")
            continue
        yield FileAccess("write", os.path.splitext(path)[0] if unpacks else f"{path}{ending}")
        if not keeps:
            yield FileAccess("delete", path)


_GPG_MAKES = ("-c", "-e", "-s", "-b", "--symmetric", "--encrypt", "--sign", "--clearsign")


def _read_gpg(call: _Call) -> Iterator[FileAccess]:
    parsed = call.parsed
    yield from _read(call.operands)
    if parsed.has("-o", "--output"):
        return
    for path in call.operands:
        if parsed.has(*_GPG_MAKES, "--detach-sign"):
            yield from _write((f"{path}.gpg", f"{path}.asc"))
        elif not parsed.has("-d", "--decrypt"):
            yield FileAccess("write", re.sub(r"\.(gpg|asc|pgp)$", "", path))


# --- editors --------------------------------------------------------------------------------------

_EDITOR_WRITE = re.compile(
    r"(?:^|[\n|:;]|\s)\s*+(?:[\d,.$%]++\s*+)?+(?:w|wr|wri|write|wq|x|xit|sav|saveas|up|update|W)!?\s+"
    r"(?:>>\s*)?([^\s|!]\S*?)(?=[\s|]|$)"
)


def _read_editor(call: _Call) -> Iterator[FileAccess]:
    valued = _EDITOR_VALUED
    if call.name in _LINE_EDITORS:
        valued -= {"-s", "-p"}
    elif call.name in _VI_EDITORS:
        valued -= {"-s"}
    parsed = parse(call.words, valued_only(valued))
    texts = parsed.values("-c", "--cmd")
    for path in parsed.operands:
        if path.startswith("+"):
            texts.append(path[1:])
        else:
            yield FileAccess("write", path)
    yield from _write(parsed.values("-w", "-W"))
    for text in (*texts, call.stdin or ""):
        yield from _write(_EDITOR_WRITE.findall(text))
    # A line editor receives the names of the files that it writes from its input.
    if call.name in _LINE_EDITORS and (call.stdin is None or UNKNOWN in call.stdin) and not texts:
        yield FileAccess("write", UNKNOWN)


_EDITOR_VALUED = frozenset("-c -S -T -u -U -i -s -w -W --cmd --servername -p".split())
_LINE_EDITORS = frozenset(("ed", "red", "ex"))
_VI_EDITORS = frozenset("exim vi vim nvim view vimdiff".split())


def _read_sed(call: _Call) -> Iterator[FileAccess]:
    """Read `sed -i`, `perl -pi.bak` and `ruby -i`: the files, and their backup copies."""
    words, suffix = _split_in_place(call.words)
    if suffix is None:
        return
    is_sed = call.name in ("sed", "gsed")
    parsed = parse(words, valued_only(_SED_VALUED if is_sed else _PERL_VALUED))
    scripts = ("-e", "-f", "--expression", "--file") if is_sed else ("-e", "-E")
    paths = parsed.operands if parsed.has(*scripts) else parsed.operands[1:]
    for path in paths:
        yield FileAccess("write", path, existing=True)
        if suffix and not suffix.startswith("/"):
            yield FileAccess("write", _name_copy(path, suffix))


_SED_VALUED = frozenset("-e -f -l --expression --file --line-length".split())
_PERL_VALUED = frozenset("-e -E -I -M -m -x -r".split())
_IN_PLACE = re.compile(r"(-[nErsuzpalwW0]*)i(.*)|--in-place(?:=(.*))?")


def _split_in_place(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the words without the option `-i`, and its suffix, or None without the option."""
    suffix: str | None = None
    rest: list[str] = []
    for word in words:
        match = _IN_PLACE.fullmatch(word) if suffix is None else None
        if match is None:
            rest.append(word)
            continue
        suffix = match[2] or match[3] or ""
        if match[1] and match[1] != "-":
            rest.append(match[1])
    return rest, suffix


def _name_copy(path: str, suffix: str) -> str:
    """Return the name of the backup that `sed -iSUFFIX` makes; a `*` in SUFFIX is the file name."""
    name = os.path.basename(path)
    copy = suffix.replace("*", name) if "*" in suffix else f"{name}{suffix}"
    return copy if "/" in suffix else os.path.join(os.path.dirname(path), copy)


# --- other programs -------------------------------------------------------------------------------

_SQLITE_LINE = re.compile(
    r"\s*\.(output|once|save|backup|clone|log|trace|excel|read|import|open|restore)\s+(.*)",
    re.DOTALL,
)


def _read_sqlite(call: _Call) -> Iterator[FileAccess]:
    """Read `.output FILE`, `.read FILE` and similar lines."""
    for text in (*call.words, *(call.stdin or "").split("\n")):
        match = _SQLITE_LINE.fullmatch(text)
        if match is None or match[2].lstrip("'\"").startswith("|"):
            continue
        kind: AccessKind = "read" if match[1] in ("read", "import") else "write"
        # The path may be quoted for SQLite, and the name of a database may stand before it.
        words = match[2].replace("'", " ").replace('"', " ").split()
        for word in words:
            if not word.startswith("-"):
                yield FileAccess(kind, word)


def _read_history(call: _Call) -> Iterator[FileAccess]:
    if call.parsed.has("-w", "-a"):
        yield from _write(call.operands[:1])


def _read_install(call: _Call) -> Iterator[FileAccess]:
    if call.parsed.has("-d", "--directory"):
        yield from _write(call.operands)


def _read_rsync(call: _Call) -> Iterator[FileAccess]:
    sources = call.operands[:-1] if call.parsed.has("--remove-source-files") else ()
    has_deletion = any(option.startswith("--del") for option, _ in call.parsed.options)
    targets = call.operands[-1:] if has_deletion else ()
    for path in (*sources, *targets):
        if ":" not in path:  # a path on this machine
            yield FileAccess("delete", path.rstrip("/"), deep="all")


_FFMPEG_FLAGS = frozenset(
    """-y -n -an -vn -sn -dn -hide_banner -shortest -nostdin -nostats -stats -re -copyts
    -ignore_unknown -bitexact -report -accurate_seek -autorotate -noautorotate -version -formats
    -codecs -benchmark""".split()
)


def _read_ffmpeg(call: _Call) -> Iterator[FileAccess]:
    option = ""
    for word in call.words:
        if option:
            yield from _use(_FFMPEG_FILES.get(option, "-"), word)
            option = ""
        elif word.startswith("-") and word != "-":
            option = "" if word in _FFMPEG_FLAGS else word
        elif word != "-":
            yield FileAccess("write", word)


_FFMPEG_FILES = {"-i": "r", "-passlogfile": "w", "-progress": "w", "-vstats_file": "w"}


def _read_converter(call: _Call) -> Iterator[FileAccess]:
    """Read ImageMagick's programs, whose last word is the output file."""
    plain = [word for word in call.words if not word.startswith(("-", "+"))]
    for path in plain[:-1]:
        if os.path.splitext(path)[1]:
            yield FileAccess("read", re.sub(r"^\w+:(?!//)|\[.*\]$", "", path))
    if len(plain) > 1:
        yield FileAccess("write", re.sub(r"^\w+:(?!//)", "", plain[-1]))
    yield from _write([word for before, word in pairwise(call.words) if before == "-write"])


_ONLY_CHECKS = frozenset("--check --diff --check-only --dry-run".split())


def _read_formatter(call: _Call) -> Iterator[FileAccess]:
    wanted = call.row.rewrites.split()
    if not _ONLY_CHECKS.union(call.row.checks.split()).isdisjoint(call.words):
        return
    if wanted and set(wanted).isdisjoint(call.words):
        return
    paths = call.operands
    if call.row.verbs:
        if not paths or paths[0] not in call.row.verbs.split():
            return
        paths = paths[1:]
    given = {word.partition("=")[0] for word in call.words}
    if not paths and call.row.everywhere and given.isdisjoint(_CHOOSES_PACKAGE):
        paths = (".",) if given.isdisjoint(_CHOOSES_CHANGED) else (CHANGED,)
    # Only files with these endings are rewritten in a folder.
    endings = tuple(f".{each}" for each in call.row.languages.split())
    deep: Depth = "all" if endings else ""
    for path in paths:
        yield FileAccess("write", path, deep=deep, endings=endings, existing=True, generated=True)


_CHOOSES_PACKAGE = frozenset("-p --package".split())
_CHOOSES_CHANGED = frozenset("--dirty --staged --changed".split())


def _read_mktemp(call: _Call) -> Iterator[FileAccess]:
    """Read `mktemp`, which creates a file in the folder for temporary files without a template."""
    folder = "".join(call.parsed.values("-p", "--tmpdir")[-1:])
    # With `-t` and with `--tmpdir` alone, the template names no folder either.
    if not folder and call.parsed.has("-t", "--tmpdir"):
        folder = tempfile.gettempdir()
    if folder and not call.operands:
        yield from _use("f", folder)
    for template in call.operands[:1]:
        yield from _use("p", os.path.join(folder, template))


_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def _read_kustomize(call: _Call) -> Iterator[FileAccess]:
    """Read `kustomize edit`, which changes the file in its working folder."""
    if call.operands[:1] == ("edit",):
        for name in _KUSTOMIZATIONS:
            yield FileAccess("write", name, existing=True)


_SPECIAL: dict[str, Callable[[_Call], Iterator[FileAccess]]] = {
    "curl": _read_curl,
    "wget": _read_wget,
    "zip": _read_zip,
    "unzip": _read_unzip,
    "seven_zip": _read_seven_zip,
    "tar": _read_tar,
    "editor": _read_editor,
    "ffmpeg": _read_ffmpeg,
    "converter": _read_converter,
    "gpg": _read_gpg,
    "compressor": _read_compressor,
    "in_place": _read_sed,
    "history": _read_history,
    "sqlite": _read_sqlite,
    "formatter": _read_formatter,
    "kustomize": _read_kustomize,
    "mktemp": _read_mktemp,
    "install": _read_install,
    "rsync": _read_rsync,
}


# --- patches --------------------------------------------------------------------------------------

_PATCHED = re.compile(r"^(?:\+\+\+|---|rename (?:from|to)|copy to|diff --git) (.*)$", re.MULTILINE)


def find_patched_paths(text: str, strip: int | None) -> list[str]:
    """Return the files that a patch changes.

    Args:
        text: The patch.
        strip: The number of leading folders to remove from each name, or None if `patch` guesses
            it.
    """
    found: dict[str, None] = {}
    for line in _PATCHED.findall(text):
        names = line.split("\t")[0]
        try:
            parsed = shlex.split(names)
        except ValueError:
            parsed = [names]
        for name in parsed:
            if name != "/dev/null":
                found |= dict.fromkeys(_strip_name(name, strip))
    return list(found)


def _strip_name(name: str, strip: int | None) -> list[str]:
    """Return the files that a name in a patch may refer to."""
    parts = name.split("/")
    # `patch` tries each name with and without its first folder.
    if strip is None:
        return [name, "/".join(parts[1:]) or name]
    return ["/".join(parts[strip:])] if len(parts) > strip else []
