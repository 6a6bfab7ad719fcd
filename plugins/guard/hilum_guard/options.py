"""Parse the options of programs: clusters, attached values, `--name=value`, abbreviations, `--`.

All command readers use this parser. For a program with a complete row, it reports every option that
is missing from the row. Such an option may take the next word as its value, so it is not known
which words are files, and a deny rule has to treat the command as unreadable.

Sources of the rows: the manuals of GNU coreutils 9.4, grep 3.11, sed 4.9, diffutils 3.10,
util-linux 2.39, file 5.45, xxd 2023-10-25 and ripgrep 14.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import attrs


@attrs.frozen
class Syntax:
    """The options of a program.

    Attributes:
        flags: Short options without a value, or whose value can only be attached.
        valued: Short options that take the rest of their word, or the next word, as their value.
        attached: The short options in ``flags`` whose value may be attached: the value is the rest
            of the cluster.
        longs: Long options without a value, or whose value can only follow `=`.
        long_valued: Long options that take the next word as their value unless there is a `=`.
        numbers: Whether a number may be an option (`head -20`).
        whole: Whether an option is the whole word after a single dash (`-out FILE`).
        stops: Whether options end with the first operand.
        complete: Whether an option that is not listed is reported.
        exact: Whether long options must be written in full: an abbreviation counts as unlisted.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    longs: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    numbers: bool = False
    whole: bool = False
    stops: bool = False
    complete: bool = False
    exact: bool = False


@attrs.frozen
class Parsed:
    """The parsed words of a command.

    Attributes:
        options: Options with their values, in order; abbreviated names are completed.
        operands: The words that are neither options nor their values.
        unknown: Options that are missing from the program's row.
        positions: The position of each operand in the words.
    """

    options: tuple[tuple[str, str], ...] = ()
    operands: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()

    def values(self, *names: str) -> list[str]:
        """Return the values of the given options, in order."""
        return [value for name, value in self.options if name in names]

    def has(self, *names: str) -> bool:
        """Return whether any of the given options is present."""
        return any(name in names for name, _ in self.options)


def parse(words: Sequence[str], syntax: Syntax) -> Parsed:
    """Return the options and operands of a command.

    Args:
        words: The words after the program.
        syntax: The options of the program.
    """
    options: list[tuple[str, str]] = []
    unknown: list[str] = []
    positions: list[int] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            positions += range(at + 1, len(words))
            break
        if not word.startswith("-") or word == "-":
            if syntax.stops:
                positions += range(at, len(words))
                break
            positions.append(at)
            at += 1
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        at += 1 + _option(word, following, syntax, options, unknown)
    return Parsed(
        options=tuple(options),
        operands=tuple(words[number] for number in positions),
        unknown=tuple(unknown) if syntax.complete else (),
        positions=tuple(positions),
    )


def _option(
    word: str, following: str, syntax: Syntax, options: list[tuple[str, str]], unknown: list[str]
) -> int:
    """Add the options of one word; return the number of following words that are values."""
    if syntax.numbers and re.fullmatch(r"-\d+[A-Za-z]*", word):
        options.append(("-#", word[1:]))
        return 0
    if not word.startswith("--") and not syntax.whole:
        return _cluster(word, following, syntax, options, unknown)
    name, equals, value = word.partition("=")
    full = _complete_name(name, syntax)
    if full not in syntax.longs and full not in syntax.long_valued:
        unknown.append(name)
    takes_next = not equals and full in syntax.long_valued
    options.append((full, following if takes_next else value))
    return 1 if takes_next else 0


def _cluster(
    word: str, following: str, syntax: Syntax, options: list[tuple[str, str]], unknown: list[str]
) -> int:
    """Add the options of a cluster (`-xvfFILE`); return the number of following values."""
    for number, letter in enumerate(word[1:], 1):
        name = f"-{letter}"
        rest = word[number + 1 :]
        if letter in syntax.valued:
            options.append((name, rest or following))
            return 0 if rest else 1
        if letter in syntax.attached:
            options.append((name, rest))
            return 0
        options.append((name, ""))
        if letter not in syntax.flags:
            unknown.append(name)
    return 0


# Flags whose names are prefixes of other option names. Rows that list only options with values do
# not contain them, so they would be mistaken for abbreviations.
_FLAGS_THAT_BEGIN_OTHERS = frozenset(
    "--list --partial --backup --netrc --head --temp --save-headers --verify".split()
)


def _complete_name(name: str, syntax: Syntax) -> str:
    """Return the only long option that a name abbreviates, or else the name itself."""
    known = syntax.longs | syntax.long_valued
    is_complete = name in known or name in _FLAGS_THAT_BEGIN_OTHERS
    if is_complete or syntax.whole or syntax.exact or len(name) < 4:
        return name
    found = [each for each in known if each.startswith(name)]
    return found[0] if len(found) == 1 else name


@cache
def valued_only(valued: frozenset[str], *, whole: bool = False, stops: bool = False) -> Syntax:
    """Return the syntax of a program for which only the options with values are known.

    Args:
        valued: The options with their dashes: `-o`, `--output`.
        whole: As in `Syntax`.
        stops: As in `Syntax`.
    """
    if whole:
        return Syntax(long_valued=valued, whole=True, stops=stops)
    shorts = frozenset(name[1] for name in valued if len(name) == 2)
    longs = frozenset(name for name in valued if name.startswith("--"))
    return Syntax(valued=shorts, long_valued=longs, stops=stops)


def operands(words: Sequence[str], valued: str = "") -> list[str]:
    """Return the words that are neither options nor their values.

    Args:
        words: The words after the program.
        valued: The letters of the short options that take a value.
    """
    return list(parse(words, valued_only(frozenset(f"-{letter}" for letter in valued))).operands)


def _row(
    flags: str = "", valued: str = "", longs: str = "", *, attached: str = "", numbers: bool = False
) -> Syntax:
    """Return a complete row; an option in ``longs`` that takes the next word ends with `=`."""
    names = [f"--{name}" for name in longs.split()] + ["--help", "--version"]
    return Syntax(
        flags=frozenset(flags + attached),
        valued=frozenset(valued),
        attached=frozenset(attached),
        longs=frozenset(name for name in names if not name.endswith("=")),
        long_valued=frozenset(name[:-1] for name in names if name.endswith("=")),
        numbers=numbers,
        complete=True,
    )


_GREP = _row(
    "EFGPivwxclLoqshHnbrRTUZaIzyuV",
    "eABCmdDf",
    "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case"
    " no-ignore-case word-regexp line-regexp null-data no-messages invert-match max-count="
    " byte-offset line-number line-buffered with-filename no-filename label= only-matching quiet"
    " silent binary-files= text directories= devices= recursive dereference-recursive include="
    " exclude= exclude-from= exclude-dir= files-without-match files-with-matches count initial-tab"
    " null before-context= after-context= context= color colour binary group-separator="
    " no-group-separator",
    numbers=True,
)
_SUM = _row("bctwz", "", "binary check tag text zero ignore-missing quiet status strict warn")
_BASE = _row(
    "di",
    "w",
    "decode ignore-garbage wrap= base64 base64url base32 base32hex base16 base2msbf base2lsbf z85",
)
_COPY_LONGS = (
    "backup no-target-directory target-directory= suffix= verbose force interactive update"
    " strip-trailing-slashes no-clobber context debug exchange no-copy"
)
_REMOVE = _row(
    "dfiIrRvP",
    "",
    "force interactive one-file-system no-preserve-root preserve-root recursive dir verbose",
)
_MODES = "changes silent quiet verbose recursive preserve-root no-preserve-root reference= "
_MAKE = _row("pvZ", "m", "mode= parents verbose context")
_SED = _row(
    "nErsuzb",
    "efl",
    "quiet silent debug expression= file= follow-symlinks in-place line-length= posix "
    "regexp-extended separate sandbox unbuffered null-data binary",
    attached="i",
)
_DIFF = _row(
    "qsrNiEbwBaydtTlupcenH",
    "CUDFILSWxX",
    "normal brief report-identical-files context unified ed rcs side-by-side width= left-column"
    " suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab"
    " tabsize= suppress-blank-empty paginate recursive no-dereference new-file"
    " unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude= exclude-from="
    " starting-file= from-file= to-file= ignore-case ignore-tab-expansion ignore-trailing-space"
    " ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines= text"
    " strip-trailing-cr ifdef= line-format= old-line-format= new-line-format="
    " unchanged-line-format= old-group-format= new-group-format= unchanged-group-format="
    " changed-group-format= minimal horizon-lines= speed-large-files color palette= output=",
    numbers=True,
)
_RG = _row(
    "nilcwvxFSsoeUPHNIpq0aLuzVh.b",
    "eABCgtTmjMdEfr",
    "files count count-matches no-heading heading line-number no-line-number ignore-case smart-case"
    " case-sensitive files-with-matches files-without-match word-regexp fixed-strings only-matching"
    " invert-match multiline json vimgrep stats column no-messages type-list trim null sort-files"
    " pcre2 with-filename no-filename line-regexp quiet crlf hidden no-ignore no-ignore-vcs"
    " no-ignore-parent follow text unrestricted passthru pretty glob= iglob= type= type-not="
    " context= after-context= before-context= max-count= max-depth= maxdepth= sort= sortr= regexp="
    " file= ignore-file= colors= color= max-columns= max-filesize= encoding= threads= replace="
    " no-config multiline-dotall byte-offset no-require-git one-file-system search-zip",
)

SYNTAX: dict[str, Syntax] = {
    "cat": _row(
        "nbsAETvetu",
        "",
        "number number-nonblank squeeze-blank show-all show-ends show-tabs show-nonprinting",
    ),
    "tac": _row("br", "s", "before regex separator="),
    "rev": _row("0Vh", "", "zero"),
    "nl": _row(
        "p",
        "bdfhilnsvw",
        "body-numbering= section-delimiter= footer-numbering= header-numbering= line-increment="
        " join-blank-lines= number-format= no-renumber number-separator= starting-line-number="
        " number-width=",
    ),
    "head": _row("qvz", "nc", "bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "tail": _row(
        "fFqvz",
        "ncs",
        "bytes= lines= follow pid= quiet silent retry sleep-interval= verbose zero-terminated"
        " max-unchanged-stats=",
        numbers=True,
    ),
    "wc": _row("lwcmL", "", "lines words bytes chars max-line-length total= files0-from="),
    **dict.fromkeys("grep egrep fgrep zgrep".split(), _GREP),
    "rg": _RG,
    "sort": _row(
        "bdfghiMnRrVCcmsuz",
        "koStT",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort"
        " ignore-nonprinting month-sort numeric-sort random-sort random-source= reverse sort="
        " version-sort batch-size= check compress-program= debug files0-from= key= merge output="
        " stable buffer-size= field-separator= temporary-directory= parallel= unique"
        " zero-terminated",
    ),
    "uniq": _row(
        "cdDiuz",
        "fsw",
        "count repeated all-repeated group ignore-case unique skip-fields= skip-chars="
        " check-chars= zero-terminated",
        numbers=True,
    ),
    "cut": _row(
        "snz",
        "bcdf",
        "only-delimited complement delimiter= fields= bytes= characters= output-delimiter="
        " zero-terminated",
    ),
    "paste": _row("sz", "d", "delimiters= serial zero-terminated"),
    "join": _row("iz", "12avetoj", "ignore-case check-order nocheck-order header zero-terminated"),
    "comm": _row("123iz", "", "check-order nocheck-order output-delimiter= total zero-terminated"),
    "cmp": _row("bls", "in", "print-bytes ignore-initial= verbose bytes= quiet silent"),
    "column": _row(
        "tnxJLe",
        "sconNRTHWEdpirOl",
        "table separator= output-width= columns= fillrows output-separator="
        " json keep-empty-lines table-columns=",
    ),
    "fold": _row("bs", "w", "bytes spaces width=", numbers=True),
    "fmt": _row(
        "cstu",
        "pwg",
        "crown-margin prefix= split-only tagged-paragraph uniform-spacing width= goal=",
        numbers=True,
    ),
    "expand": _row("i", "t", "initial tabs=", numbers=True),
    "unexpand": _row("a", "t", "all first-only tabs=", numbers=True),
    "od": _row(
        "abcdfilosxv",
        "ANjt",
        "address-radix= endian= skip-bytes= read-bytes= format= output-duplicates"
        " traditional strings width",
        attached="wS",
    ),
    "hexdump": _row(
        "bcCdovxX",
        "efns",
        "one-byte-octal one-byte-char canonical two-bytes-decimal two-bytes-octal"
        " two-bytes-hex color format= format-file= length= skip= no-squeezing",
    ),
    "xxd": _row("abCeEdhiprRuv", "cglnos"),
    **dict.fromkeys("base64 base32 basenc".split(), _BASE),
    **dict.fromkeys("md5sum sha1sum sha256sum sha512sum b2sum cksum sum".split(), _SUM),
    "strings": _row(
        "awf",
        "ntTeoU",
        "all data print-file-name bytes= radix= target= encoding= include-all-whitespace"
        " output-separator= unicode=",
    ),
    "diff": _DIFF,
    "look": _row("adfh", "t", "alternative alphanum ignore-case terminate="),
    "iconv": _row("cls", "fto", "from-code= to-code= list output= silent verbose"),
    **dict.fromkeys(
        "zcat gzcat bzcat xzcat".split(), _row("fhkLqvs", "", "force keep quiet verbose")
    ),
    "jq": _row(
        "rcCMSeajnsRn0V",
        "fL",
        "raw-output compact-output sort-keys exit-status slurp tab join-output null-input raw-input"
        " ascii-output color-output monochrome-output from-file= indent= seq stream raw-output0",
    ),
    **dict.fromkeys("sed gsed".split(), _SED),
    **dict.fromkeys(
        "awk gawk mawk".split(),
        _row(
            "",
            "Fvfe",
            "field-separator= assign= file= source= posix traditional re-interval sandbox",
        ),
    ),
    "file": _row(
        "bcdEhikLlNnprsSvzZ0",
        "FfmPe",
        "brief checking-printout mime mime-type mime-encoding no-buffer no-dereference dereference"
        " no-pad keep-going raw special-files uncompress print0 apple extension separator="
        " files-from= magic-file= parameter= exclude= exclude-quiet= list preserve-date",
    ),
    "date": _row(
        "uR",
        "dfrs",
        "date= file= reference= set= utc universal rfc-email rfc-2822 rfc-3339= iso-8601 debug"
        " resolution",
        attached="I",
    ),
    "du": _row(
        "abcDHhklLmPsSx0",
        "dBtX",
        "all apparent-size block-size= bytes total dereference-args max-depth= files0-from="
        " human-readable inodes dereference count-links no-dereference separate-dirs si summarize"
        " threshold= time time-style= exclude-from= exclude= one-file-system null",
    ),
    "rm": _REMOVE,
    "grm": _REMOVE,
    "rmdir": _row("pv", "", "ignore-fail-on-non-empty parents verbose"),
    "unlink": _row(),
    "shred": _row(
        "fuvxz", "ns", "force iterations= random-source= size= remove verbose exact zero"
    ),
    **dict.fromkeys("mv gmv".split(), _row("bfinTuvZ", "tS", _COPY_LONGS)),
    **dict.fromkeys(
        "cp gcp".split(),
        _row(
            "abdfHilLnPpRrsTuvxZ",
            "tS",
            _COPY_LONGS
            + " archive attributes-only copy-contents dereference no-dereference link recursive"
            " preserve no-preserve= parents reflink remove-destination sparse= symbolic-link"
            " one-file-system keep-directory-symlink",
        ),
    ),
    "ln": _row(
        "bdFfiLnPrsTv",
        "tS",
        _COPY_LONGS + " directory logical no-dereference physical relative symbolic",
    ),
    **dict.fromkeys(
        "install ginstall".split(),
        _row(
            "bcCdDpsTvZ",
            "gmotS",
            _COPY_LONGS + " compare directory group= mode="
            " owner= preserve-timestamps strip strip-program= preserve-context",
        ),
    ),
    "tee": _row("aip", "", "append ignore-interrupts output-error"),
    "truncate": _row("co", "rs", "no-create io-blocks reference= size="),
    "touch": _row("acfhm", "drt", "no-create date= no-dereference reference= time="),
    "mkdir": _MAKE,
    "mkfifo": _MAKE,
    "mknod": _MAKE,
    "chmod": _row("cfvRhHLP", "", _MODES + "dereference no-dereference"),
    **dict.fromkeys(
        "chown chgrp".split(), _row("cfvRhHLP", "", _MODES + "dereference no-dereference from=")
    ),
    "chattr": _row("RVf", "vp"),
    "chflags": _row("fhRvHLPx"),
    "setfacl": _row(
        "bknRLPd",
        "mxMX",
        "modify= remove= modify-file= remove-file= remove-all remove-default set= set-file="
        " mask no-mask default restore= test recursive logical physical",
    ),
    "setfattr": _row("h", "nvx", "name= value= remove= no-dereference restore= raw"),
    "chcon": _row(
        "cfvRhHLP", "urtl", _MODES + "dereference no-dereference user= role= type= range="
    ),
}
"""The programs whose options are all known."""

READS: dict[str, frozenset[str]] = {
    program: frozenset(names.split())
    for program, names in {
        **dict.fromkeys("grep egrep fgrep zgrep".split(), "-f --file --exclude-from"),
        "rg": "-f --file --ignore-file",
        **dict.fromkeys("sed gsed awk gawk mawk".split(), "-f --file"),
        "jq": "-f --from-file",
        "diff": "-X --exclude-from --from-file --to-file",
        "sort": "--random-source --files0-from",
        "wc": "--files0-from",
        "du": "--files0-from -X --exclude-from",
        "date": "-f --file",
        "file": "-f --files-from -m --magic-file",
        "hexdump": "-f --format-file",
        "shred": "--random-source",
        "setfacl": "-M -X --modify-file --remove-file --set-file --restore",
        "setfattr": "--restore",
    }.items()
}
"""Options whose value is a file that is read."""

LISTS = frozenset("--files0-from --files-from --restore".split())
"""Options whose value is a file that lists further file names."""
