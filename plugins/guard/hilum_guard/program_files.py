"""Which files programs read, write and delete: a table of their options and operands, and functions
for a few odd ones.

A row need not be complete to be useful: what it does not name is read by ``effects`` as something
that may do anything.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from hilum_guard.options import parse, valued_only

Kind = Literal["read", "write", "delete"]


class FileUse(NamedTuple):
    """One thing that a program does to a path that its words name.

    Attributes:
        kind: What it does.
        path: The path as it is written.
        deep: Whether it does the same to everything below.
        certain: Whether it does so for sure.
    """

    kind: Kind
    path: str
    deep: bool = False
    certain: bool = True


class Row(NamedTuple):
    """How a program names files.

    Attributes:
        valued: Short options that take a value, but for those of the other columns.
        longs: Long options that take the next word as their value, the same.
        writes: Options whose value is a file that is written.
        folders: Options whose value is a folder in which anything may be written.
        prefixes: Options whose value begins the names of files that are written.
        reads: Options whose value is a file that is read.
        operands: What happens to the operands, in order: ``r`` is read, ``w`` is written, ``f`` is
            a folder that is written, ``p`` begins names of files that are written, ``-`` is
            nothing; a ``*`` after one is for any number of them.
        whole: Whether options of several letters follow a single dash (`-out FILE`).
        stops: Whether options end with the first operand: what follows is another command.
        known: Whether the program does nothing else, so that rules need not fear what it may do
            besides.
        default: What is written where neither an option nor an operand says so.
    """

    valued: str = ""
    longs: str = ""
    writes: str = ""
    folders: str = ""
    prefixes: str = ""
    reads: str = ""
    operands: str = ""
    whole: bool = False
    stops: bool = False
    known: bool = False
    default: str = ""


_CC = Row(writes="-o -MF", valued="IDLlxTuU", operands="r*")
_TIME = Row(valued="f", longs="--format", writes="-o --output", stops=True)
_TRACER = Row(valued="abeEIOpPsSuXFln", writes="-o --output", stops=True)

TABLE: dict[str, Row] = {
    "split": Row(
        "abClnt",
        "--suffix-length --bytes --line-bytes --lines --number --separator --filter"
        " --additional-suffix",
        operands="r p",
        default="x",
    ),
    "csplit": Row(
        "bn", "--suffix-format --digits", prefixes="-f --prefix", operands="r -*", default="xx"
    ),
    "sort": Row(
        "kSt",
        "--key --buffer-size --field-separator --parallel --batch-size",
        writes="-o --output",
        folders="-T --temporary-directory",
        operands="r*",
    ),
    "iconv": Row("ft", "--from-code --to-code", writes="-o --output"),
    "sdiff": Row(writes="-o --output"),
    "diff": Row(writes="--output"),
    "less": Row("bhjkpPtTxyz", writes="-o -O --log-file --LOG-FILE"),
    "tree": Row("LPIHT", "--filelimit --charset --sort --timefmt", writes="-o"),
    "file": Row("FPem", "--separator --magic-file --exclude --parameter"),
    "base64": Row("wb", "--wrap --break", writes="-o --output", reads="-i --input"),
    "openssl": Row(
        writes="-out -keyout -outdir -writerand -CAserial -sess_out -keylogfile",
        reads="-in -inkey -key -CAfile",
        whole=True,
    ),
    "gpg": Row(
        "aru",
        "--recipient --local-user --homedir --keyring",
        writes="-o --output --status-file --log-file",
    ),
    "pandoc": Row(
        "ftVMHBA",
        "--from --to --variable --metadata --template",
        writes="-o --output --log --print-highlight-style",
        folders="--extract-media --data-dir",
        operands="r*",
    ),
    "dot": Row("TKGNE", writes="-o", operands="r*"),
    "mogrify": Row(
        longs=(
            "-resize -quality -rotate -crop -format -depth -density -scale -geometry -thumbnail"
            " -blur -type -fuzz -sharpen -colors -gravity -background -fill -font -pointsize"
            " -border -extent -size -define"
        ),
        folders="-path",
        operands="w*",
        whole=True,
    ),
    "sqlite3": Row(whole=True, operands="w -*"),
    "script": Row(
        "cETmo",
        "--command --echo --logging-format --output-limit",
        writes="-O -I -B -t -T --log-out --log-in --log-io --log-timing",
        operands="w",
        default="typescript",
    ),
    "install": Row("gmoS", "--group --mode --owner --suffix"),
    "rsync": Row(
        "efMBT@",
        "--rsh --exclude --include --filter --rsync-path --chmod --bwlimit --timeout --port"
        " --files-from",
        writes="--log-file --write-batch --only-write-batch",
        folders="--backup-dir --partial-dir --temp-dir",
        reads="--files-from --exclude-from --include-from --password-file --read-batch",
    ),
    "gcc": _CC,
    "g++": _CC,
    "cc": _CC,
    "c++": _CC,
    "clang": _CC,
    "clang++": _CC,
    "ld": Row("LlTe", writes="-o"),
    "rustc": Row("CLl", writes="-o", folders="--out-dir"),
    "tsc": Row(folders="--outDir -outDir --declarationDir"),
    "find": Row(writes="-fprint -fls -fprint0 -fprintf", whole=True),
    "time": _TIME,
    "gtime": _TIME,
    "strace": _TRACER,
    "ltrace": _TRACER,
    "flock": Row("wE", "--timeout --conflict-exit-code", operands="w -*", stops=True),
    "valgrind": Row(writes="--log-file --xml-file", stops=True),
    "perf": Row(writes="-o --output"),
    "hyperfine": Row(
        writes="--export-json --export-csv --export-markdown --export-asciidoc --output",
        operands="-*",
    ),
    "gzip": Row(operands="-*", known=True),
    "bzip2": Row(operands="-*", known=True),
    "xz": Row(operands="-*", known=True),
    "zstd": Row(writes="-o", operands="-*"),
    "lz4": Row(operands="-*"),
    "unzip": Row("xP", folders="-d", operands="r -*", default="./"),
    "mktemp": Row(longs="--suffix", folders="-p --tmpdir", operands="p"),
    "cpio": Row("HEF", folders="-D --directory"),
    "ar": Row(operands="- w r*"),
    "strip": Row(writes="-o", operands="w*"),
    "objcopy": Row("OIjR", operands="r w"),
    "pdftotext": Row("flr", operands="r w", whole=True),
    "gs": Row(writes="-o"),
    "wkhtmltopdf": Row(operands="r w"),
    "aria2c": Row(writes="-o --out -l --log", folders="-d --dir"),
    "yt-dlp": Row(writes="-o --output", folders="-P --paths"),
    "xmllint": Row(writes="--output -o"),
    "xsltproc": Row(writes="-o --output"),
    "patch": Row(
        "pFVBYzg",
        "--strip --fuzz --suffix",
        writes="-o --output -r --reject-file",
        reads="-i --input",
        folders="",
        operands="w r",
    ),
}
ALIASES = {
    "gsort": "sort",
    "gsplit": "split",
    "gcsplit": "csplit",
    "gpg2": "gpg",
    "rgpg": "gpg",
    "gunzip": "gzip",
    "bunzip2": "bzip2",
    "unxz": "xz",
    "unzstd": "zstd",
    "pigz": "gzip",
    "unpigz": "gzip",
    "lzma": "xz",
    "unlzma": "xz",
}


def parse_options(
    words: Sequence[str], valued: frozenset[str], *, whole: bool = False, stops: bool = False
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options of a command with their values, and its operands.

    Args:
        words: The words after the program.
        valued: Options that take a value: `-o`, `--output`.
        whole: Whether an option is the whole word after a single dash; otherwise `-abo FILE` is
            three options.
        stops: Whether the first operand ends the options.
    """
    parsed = parse(words, valued_only(valued, whole=whole, stops=stops))
    return list(parsed.options), list(parsed.operands)


def uses(name: str, words: Sequence[str], stdin: str | None = None) -> Iterator[FileUse]:
    """Yield what a program does to files that its words name.

    Args:
        name: The program, in lower case.
        words: The words after it.
        stdin: The text that is fed into it, if that is known.
    """
    row_name = ALIASES.get(name, name)
    row = TABLE.get(row_name)
    if row is not None:
        yield from _by_row(row, words)
    special = _SPECIAL.get(row_name)
    if special is not None:
        yield from special(name, words, stdin)


def is_known(name: str) -> bool:
    """Return whether a program does nothing to files but what ``uses`` yields."""
    row = TABLE.get(ALIASES.get(name, name))
    return row is not None and row.known


def _by_row(row: Row, words: Sequence[str]) -> Iterator[FileUse]:
    columns = " ".join((row.longs, row.writes, row.folders, row.prefixes, row.reads)).split()
    valued = frozenset((*(f"-{letter}" for letter in row.valued), *columns))
    options, operands = parse_options(words, valued, whole=row.whole, stops=row.stops)
    written = False
    for name, value in options:
        if not value:
            continue
        for column, code in (
            (row.writes, "w"),
            (row.folders, "f"),
            (row.prefixes, "p"),
            (row.reads, "r"),
        ):
            if name in column.split():
                written |= code != "r"
                yield from _use(code, value)
    codes = row.operands.split()
    for number, operand in enumerate(operands):
        code = codes[min(number, len(codes) - 1)] if codes else "-"
        if number >= len(codes) and not code.endswith("*"):
            break
        written |= code[0] in "wfp"
        yield from _use(code[0], operand)
    if row.default and not written:
        yield from _use(
            "w" if row.default == "typescript" else "f" if row.default.endswith("/") else "p",
            row.default,
        )


def _use(code: str, path: str) -> Iterator[FileUse]:
    if code == "r":
        yield FileUse("read", path)
    elif code == "w":
        yield FileUse("write", path)
    elif code == "f":
        yield FileUse("write", path, deep=True)
    elif code == "p":
        yield FileUse("write", path)
        yield FileUse("write", os.path.dirname(path) or ".", deep=True, certain=False)


# --- programs with rules of their own -------------------------------------------------------------

_CURL_SHORT = "AbBCdDeEFhHKmoPQrtTuUwxXyYzc"
_CURL_LONG = frozenset(
    """--output --output-dir --dump-header --cookie-jar --cookie --data --data-binary --data-raw --data-ascii --data-urlencode
    --form --upload-file --trace --trace-ascii --stderr --etag-save --etag-compare --hsts --alt-svc --libcurl --config --header
    --user-agent --referer --url --user --request --proxy --cacert --cert --key --max-time --connect-timeout --retry --range
    --write-out --netrc-file --resolve --interface --limit-rate --form-string --json --url-query --proxy-header
    --retry-delay --max-redirs --tls-max --ciphers --aws-sigv4 --oauth2-bearer --capath --cert-type --key-type --pass""".split()
)


def _last_part(address: str) -> str:
    """Return the name that a download of an address gets; ``…`` where only the server tells."""
    path = re.sub(r"^\w+://", "", re.split(r"[?#]", address)[0])
    if "/" in path.rstrip("/"):
        return path.rpartition("/")[2]
    return ""


def _curl(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    options, operands = parse_options(words, VALUED_OPTIONS["curl"])
    named = {option for option, _ in options}
    folder = next((value for option, value in options if option == "--output-dir"), "")
    addresses = operands + [value for option, value in options if option == "--url"]
    for option, value in options:
        if option in ("-o", "--output") and value != "-":
            yield FileUse("write", os.path.join(folder, value))
        elif option in (
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--etag-save",
            "--hsts",
            "--alt-svc",
            "--libcurl",
        ):
            yield FileUse("write", value)
        elif option in (
            "-T",
            "--upload-file",
            "-K",
            "--config",
            "-E",
            "--cert",
            "--key",
            "--netrc-file",
            "--etag-compare",
        ) or (option in ("-b", "--cookie") and "=" not in value):
            yield FileUse("read", value)
        elif option in (
            "-d",
            "--data",
            "--data-binary",
            "--data-ascii",
            "--json",
            "--data-urlencode",
        ):
            yield from (
                FileUse("read", path)
                for path in [value.partition("@")[2]]
                if path and "=" not in value.split("@")[0]
            )
        elif option in ("-F", "--form"):
            yield from (FileUse("read", path) for path in re.findall(r"=[@<]([^;,]+)", value))
    if named & {"-O", "--remote-name", "--remote-name-all"}:
        for address in addresses:
            part = _last_part(address)
            if part:
                yield FileUse("write", os.path.join(folder, part))
        if named & {"-J", "--remote-header-name"}:
            yield FileUse("write", folder or ".", deep=True, certain=False)
    for address in addresses:
        if address.lower().startswith("file://"):
            yield FileUse("read", re.sub(r"(?i)^file://[^/]*", "", address))


_WGET_LONG = frozenset(
    """--output-document --output-file --append-output --directory-prefix --input-file --save-cookies --load-cookies --post-file
    --body-file --post-data --header --user-agent --tries --timeout --wait --quota --level --accept --reject --domains
    --warc-file --user --password --config --referer --certificate --private-key --ca-certificate --limit-rate
    --save-headers-file --rejected-log --execute""".split()
)


VALUED_OPTIONS = {
    "curl": frozenset(f"-{letter}" for letter in _CURL_SHORT) | _CURL_LONG,
    "wget": frozenset(f"-{letter}" for letter in "aADeiIloOPQRtTUwB") | _WGET_LONG,
}
"""Options with a value, of programs that download."""


def _wget(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    options, operands = parse_options(words, VALUED_OPTIONS["wget"])
    folder = ""
    named = False
    for option, value in options:
        if option in ("-P", "--directory-prefix"):
            folder = value
        elif option in ("-O", "--output-document"):
            named = True
            yield from (FileUse("write", path) for path in [value] if path != "-")
        elif option in (
            "-o",
            "--output-file",
            "-a",
            "--append-output",
            "--save-cookies",
            "--warc-file",
            "--rejected-log",
        ):
            yield FileUse("write", value)
        elif option in (
            "-i",
            "--input-file",
            "--post-file",
            "--body-file",
            "--load-cookies",
            "--config",
        ):
            yield FileUse("read", value)
    if not named:
        yield FileUse("write", folder or ".", deep=True, certain=False)
        for address in operands:
            yield from (
                FileUse("write", os.path.join(folder, part))
                for part in [_last_part(address)]
                if part
            )


def _zip(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    valued = frozenset(
        ("-b", "-i", "-n", "-O", "-P", "-s", "-t", "-x", "--out", "--output-file", "-tt")
    )
    options, operands = parse_options(words, valued)
    moves = any(option in ("-m", "--move") for option, _ in options)
    for option, value in options:
        if option in ("-O", "--out", "--output-file"):
            yield FileUse("write", value)
    if not operands or operands[0] == "-":
        return
    yield FileUse("write", operands[0])
    if "." not in os.path.basename(operands[0]):
        yield FileUse("write", f"{operands[0]}.zip")
    for path in operands[1:]:
        yield FileUse("read", path, deep=True)
        if moves:
            yield FileUse("delete", path, deep=True)


def _seven_zip(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    plain = [word for word in words if not word.startswith("-")]
    verb = plain[0] if plain else ""
    archive = plain[1:2]
    rest = plain[2:]
    folder = next((word[2:] for word in words if re.match(r"-o.", word)), ".")
    if verb in ("x", "e"):
        yield FileUse("write", folder, deep=True)
        yield from (FileUse("read", path) for path in archive)
    elif verb in ("a", "d", "u", "rn"):
        yield from (FileUse("write", path) for path in archive)
        for path in rest if verb in ("a", "u") else []:
            yield FileUse("read", path, deep=True)
            if "-sdel" in words:
                yield FileUse("delete", path, deep=True)


_TAR_LONG = frozenset(
    """--file --directory --exclude --exclude-from --files-from --listed-incremental --index-file --transform
    --use-compress-program
    --to-command --checkpoint-action --owner --group --mode --mtime --newer --strip-components --blocking-factor --format
    --info-script --new-volume-script --rsh-command --xform --suffix --volno-file""".split()
)
_TAR_VALUED = frozenset("-f -C -X -T -g -b -I -F -H -K -L -N -V".split())


def _tar(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    if words and not words[0].startswith("-"):
        words = _dashed(words)
    options, operands = parse_options(words, _TAR_VALUED | _TAR_LONG)
    named = {option for option, _ in options}
    folder = next(
        (value for option, value in reversed(options) if option in ("-C", "--directory")), ""
    )
    archives = [value for option, value in options if option in ("-f", "--file") and value != "-"]
    adds = named & {
        "-c",
        "-r",
        "-u",
        "-A",
        "--create",
        "--append",
        "--update",
        "--concatenate",
        "--delete",
    }
    for path in archives:
        yield FileUse("write" if adds else "read", path)
    for option, value in options:
        if option in ("-g", "--listed-incremental", "--index-file", "--volno-file"):
            yield FileUse("write", value)
        elif option in ("-T", "--files-from", "-X", "--exclude-from"):
            yield FileUse("read", value)
    if adds:
        for path in operands:
            yield FileUse("read", os.path.join(folder, path), deep=True)
            if "--remove-files" in named:
                yield FileUse("delete", os.path.join(folder, path), deep=True)
    elif named & {"-x", "--extract", "--get"}:
        yield FileUse("write", folder or ".", deep=True)


def _dashed(words: Sequence[str]) -> list[str]:
    """Return old-style words of `tar` (`cfz FILE`) as options: values come in the order of their
    letters.
    """
    letters = words[0]
    rest = list(words[1:])
    found: list[str] = []
    for letter in letters:
        found.append(f"-{letter}")
        if f"-{letter}" in _TAR_VALUED and rest:
            found.append(rest.pop(0))
    return found + rest


_EDITOR_WRITE = re.compile(
    r"(?:^|[\n|:;]|\s)\s*(?:[\d,.$%]*\s*)(?:w|wr|wri|write|wq|x|xit|sav|saveas|up|update|W)!?\s+(?:>>\s*)?([^\s|!]\S*?)(?=[\s|]|$)"
)


def _editor(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    valued = frozenset("-c -S -T -u -U -i -s -w -W --cmd --servername -p".split()) - (
        {"-s", "-p"} if name in _ED else set()
    )
    ex = name in ("ex", "exim", "vi", "vim", "nvim", "view", "vimdiff")
    options, operands = parse_options(words, valued - ({"-s"} if ex else set()))
    texts = [value for option, value in options if option in ("-c", "--cmd")]
    texts += [word[1:] for word in operands if word.startswith("+")]
    texts += [stdin] if stdin else []
    for path in operands:
        if not path.startswith("+"):
            yield FileUse("write", path)
    for option, value in options:
        if option in ("-w", "-W"):
            yield FileUse("write", value)
    for text in texts:
        yield from (FileUse("write", path) for path in _EDITOR_WRITE.findall(text))


_ED = frozenset({"ed", "red", "ex"})
_FFMPEG_FLAGS = frozenset(
    """-y -n -an -vn -sn -dn -hide_banner -shortest -nostdin -nostats -stats -re -copyts -ignore_unknown -bitexact -report
    -accurate_seek -autorotate -noautorotate -version -formats -codecs -benchmark""".split()
)


def _ffmpeg(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    option = ""
    for word in words:
        if option:
            if option == "-i":
                yield FileUse("read", word)
            elif option in ("-passlogfile", "-progress", "-vstats_file"):
                yield FileUse("write", word)
            option = ""
        elif word.startswith("-") and word != "-":
            option = "" if word in _FFMPEG_FLAGS else word
        elif word != "-":
            yield FileUse("write", word)


def _converter(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    """ImageMagick: the last word is the output."""
    plain = [word for word in words if not word.startswith(("-", "+"))]
    for path in plain[:-1]:
        if os.path.splitext(path)[1]:
            yield FileUse("read", re.sub(r"^\w+:(?!//)|\[.*\]$", "", path))
    if len(plain) > 1:
        yield FileUse("write", re.sub(r"^\w+:(?!//)", "", plain[-1]))
    for before, word in pairwise(words):
        if before == "-write":
            yield FileUse("write", word)


def _gpg(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    options, operands = parse_options(
        words, frozenset("-o --output -r --recipient -u --local-user --homedir --keyring".split())
    )
    named = {option for option, _ in options}
    for path in operands:
        yield FileUse("read", path)
    if named & {"-o", "--output"}:
        return
    for path in operands:
        if named & {
            "-c",
            "-e",
            "-s",
            "--symmetric",
            "--encrypt",
            "--sign",
            "--clearsign",
            "--detach-sign",
            "-b",
        }:
            yield FileUse("write", f"{path}.gpg")
            yield FileUse("write", f"{path}.asc")
        elif not named & {"-d", "--decrypt"}:
            yield FileUse("write", re.sub(r"\.(gpg|asc|pgp)$", "", path))


def _compressor(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    ending = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "lz4": ".lz4"}[
        ALIASES.get(name, name)
    ]
    options, operands = parse_options(
        words, frozenset(("-S", "--suffix", "-o", "-T", "--threads", "-M", "-D"))
    )
    named = {option for option, _ in options}
    unpacks = bool(named & {"-d", "--decompress", "--uncompress"}) or "un" in name
    for path in operands:
        yield FileUse("read", path, deep=bool(named & {"-r", "--recursive"}))
        if named & {"-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list", "-o"}:
            continue
        if "-r" in named or "--recursive" in named:
            yield FileUse("write", path, deep=True)
            continue
        yield FileUse("write", os.path.splitext(path)[0] if unpacks else f"{path}{ending}")
        if not named & {"-k", "--keep"} and ending not in (".zst", ".lz4"):
            yield FileUse("delete", path)


def _sed(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    """`sed -i`, `perl -pi.bak`, `ruby -i`: the files, and the copies that are kept of them."""
    sed = name in ("sed", "gsed")
    if sed:
        valued = frozenset("-e -f -l --expression --file --line-length".split())
    else:
        valued = frozenset("-e -E -I -M -m -x -r".split())
    suffix: str | None = None
    rewritten: list[str] = []
    for word in words:
        found = re.fullmatch(r"(-[nErsuzpalwW0]*)i(.*)", word) or re.fullmatch(
            r"(--in-place)(?:=(.*))?", word
        )
        if found and suffix is None:
            suffix = found[2] or ""
            rewritten += [found[1]] if re.fullmatch(r"-\w+", found[1]) else []
        else:
            rewritten.append(word)
    if suffix is None:
        return
    options, operands = parse_options(rewritten, valued)
    scripts = ("-e", "-f", "--expression", "--file") if sed else ("-e", "-E")
    has_script = any(option in scripts for option, _ in options)
    for path in operands if has_script else operands[1:]:
        yield FileUse("write", path)
        if suffix and not suffix.startswith("/"):
            if "*" in suffix:
                copy = suffix.replace("*", os.path.basename(path))
            else:
                copy = f"{os.path.basename(path)}{suffix}"
            yield FileUse(
                "write", copy if "/" in suffix else os.path.join(os.path.dirname(path), copy)
            )


def _history(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    options, operands = parse_options(words, frozenset())
    if {"-w", "-a"} & {option for option, _ in options}:
        yield from (FileUse("write", path) for path in operands[:1])


def _install(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    options, operands = parse_options(
        words,
        frozenset("-g -m -o -S -t --group --mode --owner --suffix --target-directory".split()),
    )
    if {"-d", "--directory"} & {option for option, _ in options}:
        yield from (FileUse("write", path) for path in operands)


def _rsync(name: str, words: Sequence[str], stdin: str | None) -> Iterator[FileUse]:
    row = TABLE["rsync"]
    columns = " ".join((row.longs, row.writes, row.folders, row.reads)).split()
    options, operands = parse_options(
        words, frozenset((*(f"-{letter}" for letter in row.valued), *columns))
    )
    named = {option for option, _ in options}
    if "--remove-source-files" in named:
        yield from (
            FileUse("delete", path.rstrip("/"), deep=True)
            for path in operands[:-1]
            if ":" not in path
        )
    if any(option.startswith("--del") for option in named) and operands and ":" not in operands[-1]:
        yield FileUse("delete", operands[-1].rstrip("/"), deep=True)


_SPECIAL: dict[str, Callable[[str, Sequence[str], str | None], Iterator[FileUse]]] = {
    "curl": _curl,
    "wget": _wget,
    "zip": _zip,
    "7z": _seven_zip,
    "7za": _seven_zip,
    "7zz": _seven_zip,
    "7zr": _seven_zip,
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    **dict.fromkeys("ed red ex vi vim nvim view vimdiff".split(), _editor),
    "ffmpeg": _ffmpeg,
    **dict.fromkeys("convert magick montage composite import".split(), _converter),
    "gpg": _gpg,
    **dict.fromkeys("gzip bzip2 xz zstd lz4".split(), _compressor),
    **dict.fromkeys("sed gsed perl ruby".split(), _sed),
    "history": _history,
    "install": _install,
    "ginstall": _install,
    "rsync": _rsync,
}


# --- patches --------------------------------------------------------------------------------------

_PATCHED = re.compile(r"^(?:\+\+\+|---|rename (?:from|to)|copy to|diff --git) (.*)$", re.MULTILINE)


def patched_paths(text: str, strip: int | None) -> list[str]:
    """Return the files that a patch changes.

    Args:
        text: The patch.
        strip: How many leading folders are cut off each name; None where `patch` guesses.
    """
    found: dict[str, None] = {}
    for line in _PATCHED.findall(text):
        try:
            names = shlex.split(line.split("\t")[0])
        except ValueError:
            names = [line.split("\t")[0]]
        for name in names:
            parts = name.split("/")
            if name == "/dev/null":
                continue
            if strip is None:
                found[name] = None
                strip_one = parts[1:]
                found["/".join(strip_one) or name] = None
            elif len(parts) > strip:
                found["/".join(parts[strip:])] = None
    return list(found)
