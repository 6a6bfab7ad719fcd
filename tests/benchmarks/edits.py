"""How edits with slips end: right, refused, or wrong.

Run: ``python tests/benchmarks/edits.py [edits] [seed] [old new]``.

``edits`` is the number for each kind of slip; 550 make about 20,000 slips.

Files are looked for on this machine (standard library, packages, their documentation, headers,
scripts …), edits are made up or taken from the history of this repository, or from two folders
``old`` and ``new`` that hold two versions of something. Then a slip is put in, and what the file
must become is known beforehand: lines that stay as the file has them, lines that are new as they
were sent, but for a margin that the whole text lost or got. Prints a table and the times;
``changed`` counts edits whose added lines are not in the file byte by byte as they were sent,
leading white space apart.
"""

import difflib
import os
import random
import re
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hilum_files import EditError, apply_edit

ENDINGS = """.py .pyi .c .h .hpp .cpp .js .mjs .ts .css .html .md .rst .yaml .yml .toml .json .sh .pl .pm .sql .php .rb .go .rs
.java .lua .mk .txt .xml .vim .awk .tcl .el .cfg .ini .cmake .scss .svg""".split()
ROOTS = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/include", "/usr/share", "/usr/lib/node_modules",
         "/usr/lib/python3", "/usr/lib/git-core", "/etc"]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An edit, and what must come of it; ``after`` is ``None`` where it must be refused."""

    ending: str
    before: str
    old: str
    new: str
    after: str | None
    kind: str = ""
    lines: tuple[int, ...] = ()  # where it must be refused as ambiguous
    sent: str | None = None  # the new text without line numbers or escapes, where it has them


# --- files and edits ------------------------------------------------------------------------------


def files(rng: random.Random, each: int, roots: Sequence[str] = ROOTS) -> list[tuple[str, str]]:
    """Find up to ``each`` text files of every ending: ending and content."""
    found: dict[str, list[str]] = defaultdict(list)
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                ending = os.path.splitext(name)[1] or (
                    "make" if name.startswith("Makefile") else ""
                )
                if ending in ENDINGS or ending == "make":
                    found[ending].append(os.path.join(folder, name))
    texts = []
    for ending, paths in sorted(found.items()):
        taken = 0
        for path in rng.sample(paths, min(len(paths), each * 4)):
            try:
                text = (
                    Path(path).read_bytes().decode("utf-8-sig")
                )  # the mark is the file's, and no text
            except (OSError, UnicodeDecodeError):
                continue
            if (
                200 < len(text) < 300_000
                and text.count("\n") > 10
                and "\r" not in text
                and "\0" not in text
            ):
                texts.append((ending, text))
                taken += 1
            if taken == each:
                break
    return texts


def made_up(rng: random.Random, ending: str, text: str) -> Case | None:
    """Make an edit: some lines changed, added, taken away or wrapped, with unchanged lines around
    or without.
    """
    lines = text.split("\n")
    size = rng.choice([1, 2, 3, 4, 6, 10])
    at = rng.randrange(max(len(lines) - size - 1, 1))
    old = lines[at : at + size]
    if not old[0].strip() or not old[-1].strip():
        return None
    new = list(old)
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(len(new)) if new else 0
        action = rng.choice(["change", "change", "change", "insert", "delete", "wrap"])
        if action == "change" and new:
            new[place] = changed(rng, new[place])
        elif action == "insert":
            like = new[place] if new else old[0]
            other = rng.choice(lines).strip() or "pass"
            new.insert(place, like[: len(like) - len(like.lstrip())] + changed(rng, other))
        elif action == "delete" and len(new) > 1:
            del new[place]
        elif action == "wrap" and new:
            line = new[place]
            indent, step = (
                line[: len(line) - len(line.lstrip())],
                "\t" if line.startswith("\t") else "    ",
            )
            if line.strip():
                new[place : place + 1] = [f"{indent}if ready:", f"{indent}{step}{line.lstrip()}"]
    after = lines[:at] + new + lines[at + size :]
    return case_of(ending, lines, at, old, new, after)


def case_of(
    ending: str, lines: list[str], at: int, old: list[str], new: list[str], after: list[str]
) -> Case | None:
    """Build the case if the place is the only one, and blank lines at the ends do not blur it."""
    said = [" ".join(line.split()) for line in lines if line.strip()]
    wanted = [" ".join(line.split()) for line in old if line.strip()]
    if not wanted or old == new or not new or not new[0].strip() or not new[-1].strip():
        return None
    if "\n".join(["", *said, ""]).count("\n".join(["", *wanted, ""])) != 1:
        return None
    before = "\n".join(lines)
    if before.count("\n".join(old)) != 1 or any(len(line) > 400 for line in old + new):
        return None
    return Case(ending, before, "\n".join(old), "\n".join(new), "\n".join(after))


def changed(rng: random.Random, line: str) -> str:
    """Change a word or a number of a line, or put something behind it."""
    words = list(re.finditer(r"[A-Za-z]{2,}|\d+", line))
    if not words or rng.random() < 0.15:
        return line.rstrip() + rng.choice([" + offset", "x", ", other)", "  # note"])
    word = rng.choice(words)
    fresh = (
        str(rng.randrange(100))
        if word[0].isdigit()
        else rng.choice(["value", "result_2", "Other", "flush", word[0] + "s"])
    )
    return (line[: word.start()] + fresh + line[word.end() :]).rstrip()


def hunks(ending: str, before: str, after: str, rng: random.Random) -> Iterator[Case]:
    """Give the hunks of a change as edits, each alone."""
    a, b = before.split("\n"), after.split("\n")
    if len(a) + len(b) > 6000:
        return
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(
        rng.choice([0, 1, 2, 3])
    ):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        while i1 < i2 and j1 < j2 and a[i1] == b[j1] and not a[i1].strip():
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1] and not a[i2 - 1].strip():
            i2, j2 = i2 - 1, j2 - 1
        old, new = a[i1:i2], b[j1:j2]
        if not old or not old[0].strip() or not old[-1].strip() or len(old) > 60:
            continue
        case = case_of(ending, a, i1, old, new, a[:i1] + new + a[i2:])
        if case:
            yield case


def history(rng: random.Random, most: int) -> list[Case]:
    """Give edits from the history of this repository, where there is one."""
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=root, capture_output=True, check=False
        ).stdout.decode(errors="replace")

    cases: list[Case] = []
    commits = git("log", "--format=%H", "--no-merges").split()
    rng.shuffle(commits)
    for commit in commits:
        for line in git(
            "diff-tree", "-r", "--no-commit-id", "--diff-filter=M", "--name-only", commit
        ).splitlines():
            old, new = git("show", f"{commit}~:{line}"), git("show", f"{commit}:{line}")
            if "\r" not in old + new and "\ufffd" not in old + new:
                cases += hunks(os.path.splitext(line)[1], old, new, rng)
        if len(cases) >= most:
            break
    return cases


def versions(old: Path, new: Path, rng: random.Random, most: int) -> list[Case]:
    """Give edits from two folders that hold two versions of the same files."""
    cases: list[Case] = []
    paths = [
        p for p in sorted(old.rglob("*")) if p.is_file() and (new / p.relative_to(old)).is_file()
    ]
    rng.shuffle(paths)
    for path in paths:
        try:
            before = path.read_bytes().decode()
            after = (new / path.relative_to(old)).read_bytes().decode()
        except UnicodeDecodeError:
            continue
        has_controls = any(control in before + after for control in "\r\0")
        if before != after and not has_controls:
            cases += hunks(path.suffix, before, after, rng)
        if len(cases) >= most:
            break
    return cases


# --- slips that must be survived ------------------------------------------------------------------

Slip = Callable[[random.Random, Case], Case | None]
SAFE: dict[str, Slip] = {}
REFUSED: dict[str, Slip] = {}
EITHER: dict[str, Slip] = {}


def slip(table: dict[str, Slip]) -> Callable[[Slip], Slip]:
    """Enter a slip in a table under its name."""

    def enter(function: Slip) -> Slip:
        table[function.__name__.replace("_", " ")] = function
        return function

    return enter


def both(case: Case, change: Callable[[str], str]) -> Case:
    return replace(case, old=change(case.old), new=change(case.new))


def each_line(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) if line.strip() else line for line in text.split("\n"))


def same(case: Case) -> list[tuple[int, int]]:
    """The indexes of the lines that old and new text share."""
    a, b = case.old.split("\n"), case.new.split("\n")
    codes = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [
        (i, i + j1 - i1) for kind, i1, i2, j1, _ in codes if kind == "equal" for i in range(i1, i2)
    ]


def no_trailing(text: str) -> bool:
    return all(line == line.rstrip() for line in text.split("\n"))


@slip(SAFE)
def none(rng: random.Random, case: Case) -> Case | None:
    return case


@slip(SAFE)
def trailing_blanks_in_old(rng: random.Random, case: Case) -> Case | None:
    lines = [line + rng.choice(["", " ", "  ", "\t"]) for line in case.old.split("\n")]
    return replace(case, old="\n".join(lines) + " ")


def sent_with_slip(case: Case, change: Callable[[str], str]) -> Case:
    """The case with a slip in every line of both texts: what stays is the file's, what is new is as
    it was sent.
    """
    kept = bare_lines(case.old)
    after = [
        line if line.strip() in kept else each_line(line, change) for line in case.new.split("\n")
    ]
    changed = both(case, lambda text: each_line(text, change))
    return replace(changed, after=splice(case, "\n".join(after)))


def slip_in_kept(case: Case, change: Callable[[str], str]) -> Case:
    """The case with a slip in the old text and in the lines that the new one shares with it."""
    kept = bare_lines(case.old)
    new = [
        each_line(line, change) if line.strip() in kept else line for line in case.new.split("\n")
    ]
    return replace(case, old=each_line(case.old, change), new="\n".join(new))


def added_lines(old: str, new: str) -> list[str]:
    """The lines of the new text that the old one does not have, at any depth, without blank
    ones.
    """
    kept = bare_lines(old)
    return [line for line in new.split("\n") if line.strip() not in kept and line.strip()]


def bare_lines(text: str) -> set[str]:
    """The lines of a text without white space at their ends."""
    return {line.strip() for line in text.split("\n")}


@slip(SAFE)
def trailing_blanks_in_both(rng: random.Random, case: Case) -> Case | None:
    extra = rng.choice([" ", "\t"])
    # Of a line that comes twice in the new text one is kept and one is added: the blanks at its end
    # may be either's.
    return (
        replace(sent_with_slip(case, lambda line: line + extra), kind="trailing")
        if no_trailing(case.new)
        else None
    )


def own_blanks(rng: random.Random, line: str) -> str:
    """The line with runs of spaces, tabs or blanks at its end that are meant."""
    kind = rng.choice(["double", "tab", "end", "typographic"])
    if kind == "double":
        return line + "  =  note"
    if kind == "tab":
        return line + "\t# note"
    return (
        line + rng.choice([" ", "  ", "\t"]) if kind == "end" else line + " \u2014 \u201cso\u2019"
    )


@slip(SAFE)
def added_lines_with_blanks_of_their_own(rng: random.Random, case: Case) -> Case | None:
    """A slip in the lines that stay, and a new line with blanks, dashes and quotes that look like
    one.
    """
    lines, kept = case.new.split("\n"), bare_lines(case.old)
    places = [n for n, line in enumerate(lines) if line.strip() and line.strip() not in kept]
    if not places or not case.old.isascii() or not no_trailing(case.old):
        return None
    for place in places:
        lines[place] = own_blanks(rng, lines[place])
    fresh = replace(case, new="\n".join(lines), after=splice(case, "\n".join(lines)))
    doubled = not re.search("[\"'`\t]|  ", each_line(case.old, str.strip)) and re.search(
        r"\S \S", case.old
    )
    if doubled and rng.random() < 0.7:
        return slip_in_kept(fresh, lambda line: re.sub(r"(?<=\S) (?=\S)", "  ", line))
    return replace(slip_in_kept(fresh, lambda line: line + "  "), kind="trailing")


@slip(SAFE)
def typographic_dashes_in_kept_lines(rng: random.Random, case: Case) -> Case | None:
    if "-" not in case.old or not case.old.isascii() or not case.new.isascii():
        return None
    return slip_in_kept(case, lambda line: line.replace("-", "\u2013"))


@slip(SAFE)
def ellipses_in_kept_lines(rng: random.Random, case: Case) -> Case | None:
    if (
        not re.search(r"(?<!\.)\.{3}(?!\.)", case.old)
        or "...." in case.old
        or not (case.old + case.new).isascii()
    ):
        return None
    return slip_in_kept(case, lambda line: line.replace("...", "\u2026"))


@slip(SAFE)
def trailing_blanks_in_file(rng: random.Random, case: Case) -> Case | None:
    """Unchanged lines have white space at their ends that the model left out."""
    pairs = [(i, j) for i, j in same(case) if case.old.split("\n")[i].strip()]
    if not pairs:
        return None
    old, new = case.old.split("\n"), case.new.split("\n")
    for i, j in pairs:
        extra = rng.choice(["", " ", "  ", "\t"])
        old[i] += extra
        new[j] += extra
    before, after = case.before.replace(case.old, "\n".join(old)), splice(case, "\n".join(new))
    return replace(case, before=before, after=after, kind="trailing")


def splice(case: Case, new: str) -> str:
    at = case.before.index(case.old)
    return case.before[:at] + new + case.before[at + len(case.old) :]


def indents(text: str) -> list[str]:
    return [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line.strip()]


def common_margin(found: list[str]) -> str:
    return next(
        (
            min(found)[:n]
            for n in range(len(min(found)), 0, -1)
            if all(i.startswith(min(found)[:n]) for i in found)
        ),
        "",
    )


@slip(SAFE)
def spaces_for_tabs(rng: random.Random, case: Case) -> Case | None:
    width = rng.choice([4, 4, 8, 2])
    if not any("\t" in i for i in indents(case.old)) or any(
        " " in i for i in indents(case.old + "\n" + case.new)
    ):
        return None
    return both(
        case,
        lambda t: each_line(
            t, lambda line: re.sub(r"^\t+", lambda m: " " * width * len(m[0]), line)
        ),
    )


@slip(SAFE)
def tabs_for_spaces(rng: random.Random, case: Case) -> Case | None:
    found = indents(case.old + "\n" + case.new)
    if any("\t" in i or len(i) % 4 for i in found) or not any(indents(case.old)):
        return None
    if {len(i) % 8 for i in indents(case.before) if "\t" not in i} == {0}:
        return None
    return both(
        case,
        lambda t: each_line(
            t, lambda line: re.sub(r"^ +", lambda m: "\t" * (len(m[0]) // 4), line)
        ),
    )


@slip(SAFE)
def dedented(rng: random.Random, case: Case) -> Case | None:
    """Several lines, or one that becomes one; one that becomes several is below."""
    if "\n" not in case.old and "\n" in case.new:
        return None
    return without_margin(case)


def without_margin(case: Case) -> Case | None:
    found = indents(case.old + "\n" + case.new)
    margin = common_margin(found)
    if not margin or margin not in indents(case.old):
        return None
    moved = each_line(case.old, lambda line: line.removeprefix(margin))
    if moved in case.before.replace(case.old, "") or ("\n" in moved and moved in case.before):
        return None  # by chance another place
    return both(case, lambda text: each_line(text, lambda line: line.removeprefix(margin)))


@slip(SAFE)
def moved_in(rng: random.Random, case: Case) -> Case | None:
    found = indents(case.old + "\n" + case.new)
    if any("\t" in i for i in found) or min(found) not in indents(case.old):
        return None
    extra = " " * rng.choice([1, 2, 3, 4, 8])
    return both(case, lambda text: each_line(text, lambda line: extra + line))


@slip(SAFE)
def old_only_dedented(rng: random.Random, case: Case) -> Case | None:
    """The old text lost its margin, the new one is as the file wants it, and shares a line with
    it.
    """
    margin = common_margin(indents(case.old))
    old = case.old.split("\n")
    if (
        not margin
        or indents(case.old)[0] != margin
        or indents(case.new)[0] != margin
        or len(old) < 2
    ):
        return None
    if not any(old[i].strip() for i, _ in same(case)):
        return None
    return replace(case, old=each_line(case.old, lambda line: line.removeprefix(margin)))


@slip(SAFE)
def first_line_stripped(rng: random.Random, case: Case) -> Case | None:
    if (
        not indents(case.old)[0]
        or indents(case.new)[0] != indents(case.old)[0]
        or case.old.count("\n") < 1
    ):
        return None
    old, new = case.old.split("\n"), case.new.split("\n")
    if old[0] != new[0]:
        return None
    return both(case, str.lstrip)


def blank_gap(
    rng: random.Random, case: Case, wanted: Callable[[str], bool]
) -> tuple[int, int] | None:
    """A place between unchanged lines, where the next line is of a kind."""
    old, pairs = case.old.split("\n"), same(case)
    known = set(pairs)
    found = [
        (i, j)
        for i, j in pairs
        if old[i].strip() and (i + 1, j + 1) in known and wanted(old[i + 1])
    ]
    found = [
        (i, j) for i, j in found if old.count(old[i]) == 1 == case.new.split("\n").count(old[i])
    ]
    found = [(i, j) for i, j in found if (i + 2, j + 2) in known or old[i + 1].strip()]
    return rng.choice(found) if found else None


@slip(SAFE)
def blank_line_left_out(rng: random.Random, case: Case) -> Case | None:
    found = blank_gap(rng, case, lambda line: not line.strip())
    if not found:
        return None
    old, new = case.old.split("\n"), case.new.split("\n")
    del old[found[0] + 1], new[found[1] + 1]
    return replace(case, old="\n".join(old), new="\n".join(new))


@slip(SAFE)
def blank_line_too_many(rng: random.Random, case: Case) -> Case | None:
    found = blank_gap(rng, case, lambda line: True)
    if not found:
        return None
    old, new = case.old.split("\n"), case.new.split("\n")
    old.insert(found[0] + 1, "")
    new.insert(found[1] + 1, "")
    return replace(case, old="\n".join(old), new="\n".join(new))


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


@slip(SAFE)
def crlf_in_the_file(rng: random.Random, case: Case) -> Case | None:
    assert case.after is not None
    return replace(case, before=crlf(case.before), after=crlf(case.after))


@slip(SAFE)
def crlf_in_the_texts(rng: random.Random, case: Case) -> Case | None:
    return both(case, crlf)


@slip(SAFE)
def mixed_line_ends(rng: random.Random, case: Case) -> Case | None:
    """The lines outside of the place have other line ends."""
    at = case.before.index(case.old)
    start, end = case.before.rfind("\n", 0, at) + 1, case.before.find("\n", at + len(case.old)) + 1
    if not end or case.before[start:at].strip():
        return None
    assert case.after is not None
    tail = len(case.before) - end
    inner = case.after[start : len(case.after) - tail]
    before = crlf(case.before[:start]) + case.before[start:end] + crlf(case.before[end:])
    return replace(
        case, before=before, after=crlf(case.before[:start]) + inner + crlf(case.before[end:])
    )


@slip(SAFE)
def bom_in_the_file(rng: random.Random, case: Case) -> Case | None:
    return replace(case, before="\ufeff" + case.before, after=f"\ufeff{case.after}")


@slip(SAFE)
def bom_in_the_texts(rng: random.Random, case: Case) -> Case | None:
    return both(case, lambda text: "\ufeff" + text)


def numbered(text: str, first: int, mark: str) -> str:
    return "\n".join(f"{number}{mark}{line}" for number, line in enumerate(text.split("\n"), first))


@slip(SAFE)
def line_numbers_in_both(rng: random.Random, case: Case) -> Case | None:
    first = case.before.count("\n", 0, case.before.index(case.old)) + 1
    mark = rng.choice([" | ", " | ", "\t", "→"])
    return replace(both(case, lambda text: numbered(text, first, mark)), sent=case.new)


@slip(SAFE)
def line_numbers_in_old(rng: random.Random, case: Case) -> Case | None:
    first = case.before.count("\n", 0, case.before.index(case.old)) + 1
    return replace(case, old=numbered(case.old, first, " | "))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace('"', '\\"')


@slip(SAFE)
def escaped_twice(rng: random.Random, case: Case) -> Case | None:
    return (
        replace(both(case, escaped), sent=case.new)
        if "\n" in case.old and "\n" in case.new
        else None
    )


@slip(SAFE)
def escaped_line_ends(rng: random.Random, case: Case) -> Case | None:
    if "\n" not in case.old or "\n" not in case.new or re.search("[\\\\\"'`]", case.old + case.new):
        return None
    return replace(both(case, lambda text: text.replace("\n", "\\n")), sent=case.new)


@slip(SAFE)
def escaped_quotes(rng: random.Random, case: Case) -> Case | None:
    if '"' not in case.old or "\\" in case.old + case.new:
        return None
    return replace(both(case, lambda text: text.replace('"', '\\"')), sent=case.new)


@slip(SAFE)
def escaped_old_only(rng: random.Random, case: Case) -> Case | None:
    if '"' not in case.old or "\\" in case.old + case.new:
        return None
    return replace(case, old=case.old.replace('"', '\\"'))


def curly(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', "“\\1”", text)
    return re.sub(r"'", "’", text).replace('"', "“")


@slip(SAFE)
def typographic_quotes_in_both(rng: random.Random, case: Case) -> Case | None:
    """In the lines that stay; the new ones have plain quotes, or none."""
    if not case.old.isascii() or not case.new.isascii() or not re.search("[\"']", case.old):
        return None
    return slip_in_kept(case, curly)


@slip(REFUSED)
def typographic_characters_in_added_lines(rng: random.Random, case: Case) -> Case | None:
    """Both texts are typographic throughout: the file must not get such characters."""
    if not case.old.isascii() or not case.new.isascii():
        return None
    changes: list[Callable[[str], str]] = [curly, lambda text: text.replace(" ", "\u00a0"),
                                           lambda text: text.replace("-", "\u2013")]  # fmt: skip
    slipped = both(case, rng.choice(changes))
    if slipped.old == case.old or all(
        line.isascii() for line in added_lines(slipped.old, slipped.new)
    ):
        return None
    return replace(slipped, after=None)


@slip(SAFE)
def typographic_quotes_in_old(rng: random.Random, case: Case) -> Case | None:
    if not case.old.isascii() or not case.new.isascii() or not re.search("[\"']", case.old):
        return None
    return replace(case, old=curly(case.old))


@slip(SAFE)
def new_typographic_quotes_stay(rng: random.Random, case: Case) -> Case | None:
    """The old text has a slip of another kind; what is typographic in the new one is meant."""
    if not case.old.isascii() or not case.new.isascii():
        return None
    lines = case.new.split("\n")
    at = rng.randrange(len(lines))
    if lines[at] in case.old.split("\n") or not lines[at].strip() or not no_trailing(case.new):
        return None
    lines[at] += " “so’"
    return replace(
        case, old=case.old + "  ", new="\n".join(lines), after=splice(case, "\n".join(lines))
    )


@slip(SAFE)
def other_spaces_in_kept_lines(rng: random.Random, case: Case) -> Case | None:
    if " " not in case.old.strip() or not case.old.isascii() or not case.new.isascii():
        return None
    return slip_in_kept(case, lambda line: line.replace(" ", "\u00a0"))


@slip(SAFE)
def straight_quotes_for_typographic(rng: random.Random, case: Case) -> Case | None:
    """The file has typographic quotes in lines that do not change; the model wrote plain ones."""
    lines, new = case.old.split("\n"), case.new.split("\n")
    pairs = [(i, j) for i, j in same(case) if '"' in lines[i]]
    rest = [line for n, line in enumerate(new) if n not in {j for _, j in pairs}]
    if not pairs or any('"' in line for line in rest) or any('"' in line for n, line in enumerate(lines)
                                                            if n not in {i for i, _ in pairs}):  # fmt: skip
        return None
    for i, j in pairs:
        lines[i] = new[j] = lines[i].replace('"', "”")
    return replace(
        case,
        before=case.before.replace(case.old, "\n".join(lines)),
        after=splice(case, "\n".join(new)),
    )


@slip(SAFE)
def line_end_behind_both(rng: random.Random, case: Case) -> Case | None:
    return both(case, lambda text: text + "\n")


@slip(SAFE)
def line_end_behind_old(rng: random.Random, case: Case) -> Case | None:
    end = case.before.index(case.old) + len(case.old)
    if (
        not whole(case)
        or case.before[end : end + 2] in ("\n\n", "\n", "")
        or case.old == case.new + "\n"
    ):
        return None
    return replace(case, old=case.old + "\n")


@slip(SAFE)
def line_end_behind_new(rng: random.Random, case: Case) -> Case | None:
    """An exact text is taken at its word: a blank line."""
    return replace(case, new=case.new + "\n", after=splice(case, case.new + "\n"))


@slip(SAFE)
def parts_of_lines(rng: random.Random, case: Case) -> Case | None:
    """An exact text from the middle of one line to the middle of another, cut between words."""
    old, new = case.old, case.new
    gaps = [match.start() for match in re.finditer(r"(?<=\w) (?=\w)", old)]
    heads = [at + 1 for at in gaps if at < shared(old, new)]
    most = min(shared(old[::-1], new[::-1]), len(new))
    tails = [at for at in gaps if heads and at > heads[0] and len(old) - at <= most - heads[0]]
    if not heads or not tails:
        return None
    head, tail = heads[0], len(old) - rng.choice(tails)
    text, wanted = old[head : len(old) - tail], new[head : len(new) - tail]
    return (
        replace(case, old=text, new=wanted)
        if case.before.count(text) == 1 and text != wanted
        else None
    )


def shared(a: str, b: str) -> int:
    """The number of characters that both begin with."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


@slip(SAFE)
def line_end_before_both(rng: random.Random, case: Case) -> Case | None:
    return both(case, lambda text: "\n" + text)


@slip(EITHER)
def line_end_before_old(rng: random.Random, case: Case) -> Case | None:
    at = case.before.index(case.old)
    return (
        replace(case, old="\n" + case.old)
        if whole(case) and case.before[max(at - 2, 0) : at] != "\n\n" and at > 1
        else None
    )


def whole(case: Case) -> bool:
    at = case.before.index(case.old)
    return (not at or case.before[at - 1] == "\n") and case.before[at + len(case.old) :][:1] in (
        "",
        "\n",
    )


@slip(SAFE)
def spaces_inside_of_lines(rng: random.Random, case: Case) -> Case | None:
    if re.search("[\"'`\t]|  ", each_line(case.old + "\n" + case.new, str.strip)):
        return None
    if not re.search(r"\S \S", case.old):
        return None
    return sent_with_slip(case, lambda line: re.sub(r"(?<=\S) (?=\S)", "  ", line))


@slip(SAFE)
def several_slips(rng: random.Random, case: Case) -> Case | None:
    names = rng.sample(["dedented", "trailing blanks in old", "typographic quotes in both", "blank line too many",
                        "line end behind both"], 2)  # fmt: skip
    slipped: Case | None = case
    order = "trailing blanks in old, line end behind both, blank line too many, typographic quotes in both, dedented"
    for name in sorted(names, key=order.find):
        slipped = SAFE[name](rng, slipped) if slipped else None
    file = rng.choice(["crlf in the file", "bom in the file"])
    return SAFE[file](rng, slipped) if slipped else None


@slip(SAFE)
def numbers_and_margin(rng: random.Random, case: Case) -> Case | None:
    moved = SAFE["dedented"](rng, case)
    return (
        replace(both(moved, lambda text: numbered(text, 7, " | ")), sent=moved.new)
        if moved
        else None
    )


@slip(SAFE)
def numbers_on_kept_lines(rng: random.Random, case: Case) -> Case | None:
    """The lines that stay have their numbers, those that are new have none."""
    old, new, mark = case.old.split("\n"), case.new.split("\n"), rng.choice([" | ", "\t", "→"])
    first = case.before.count("\n", 0, case.before.index(case.old)) + 1
    for i, j in same(case):
        new[j] = f"{first + i}{mark}{old[i]}"
    return replace(
        case,
        old="\n".join(f"{first + i}{mark}{line}" for i, line in enumerate(old)),
        new="\n".join(new),
    )


@slip(SAFE)
def numbers_on_some_kept_lines(rng: random.Random, case: Case) -> Case | None:
    """Some of the lines that stay have their numbers, in both texts."""
    pairs = [(i, j) for i, j in same(case) if case.old.split("\n")[i].strip()]
    if len(pairs) < 2:
        return None
    old, new, mark = case.old.split("\n"), case.new.split("\n"), rng.choice([" | ", "→"])
    first = case.before.count("\n", 0, case.before.index(case.old)) + 1
    for i, j in rng.sample(pairs, rng.randrange(1, len(pairs))):
        old[i] = new[j] = f"{first + i}{mark}{old[i]}"
    return replace(case, old="\n".join(old), new="\n".join(new))


@slip(SAFE)
def cut_at_a_hyphen_or_in_a_version(rng: random.Random, case: Case) -> Case | None:
    """An exact text that ends in front of a hyphen, or of a later part of a version."""
    ends = [
        m.start() for m in re.finditer(r"(?<=[A-Za-z])-(?=[A-Za-z])|(?<=\d)\.(?=\d+\.\d)", case.old)
    ]
    if not ends or not whole(case):
        return None
    old = case.old[: rng.choice(ends)]
    if case.before.count(old) != 1 or not re.search(r"\S\s+\S", old):
        return None
    new = re.sub(r"\w+", "fresh", old, count=1)
    return (
        replace(case, old=old, new=new, after=splice(replace(case, old=old), new))
        if new != old
        else None
    )


# --- what must be refused -------------------------------------------------------------------------


def refused(case: Case, old: str) -> Case | None:
    """The case with another old text, unless that is in the file by chance."""
    plain = " ".join(old.split())
    there = old in (case.old, case.new) or plain in " ".join(case.before.split())
    return None if there else replace(case, old=old, after=None)


@slip(REFUSED)
def other_word(rng: random.Random, case: Case) -> Case | None:
    words = list(re.finditer(r"[A-Za-z]{3,}", case.old))
    if not words:
        return None
    word = rng.choice(words)
    other = word[0][:-1] + ("a" if word[0][-1] != "a" else "o")
    return refused(case, case.old[: word.start()] + other + case.old[word.end() :])


@slip(REFUSED)
def other_number(rng: random.Random, case: Case) -> Case | None:
    numbers = list(re.finditer(r"\d+", case.old))
    if not numbers:
        return None
    number = rng.choice(numbers)
    return refused(
        case, case.old[: number.start()] + str(int(number[0]) + 1) + case.old[number.end() :]
    )


@slip(REFUSED)
def other_operator(rng: random.Random, case: Case) -> Case | None:
    signs = list(re.finditer(r"[=<>+*/%&|!;,.(){}\[\]]", case.old))
    if not signs:
        return None
    sign = rng.choice(signs)
    return refused(
        case, case.old[: sign.start()] + rng.choice("=<>+*/&|!;,.()") + case.old[sign.end() :]
    )


@slip(REFUSED)
def word_split(rng: random.Random, case: Case) -> Case | None:
    words = list(re.finditer(r"\w{4,}", case.old))
    if not words:
        return None
    at = rng.choice(words).start() + 2
    old = case.old[:at] + " " + case.old[at:]
    return (
        replace(case, old=old, after=None)
        if " ".join(old.split()) not in " ".join(case.before.split())
        else None
    )


@slip(REFUSED)
def line_missing(rng: random.Random, case: Case) -> Case | None:
    lines = case.old.split("\n")
    inner = [n for n in range(1, len(lines) - 1) if lines[n].strip()]
    if not inner:
        return None
    del lines[rng.choice(inner)]
    return refused(case, "\n".join(lines))


@slip(REFUSED)
def lines_swapped(rng: random.Random, case: Case) -> Case | None:
    lines = case.old.split("\n")
    if (
        len(lines) < 2
        or not lines[0].strip()
        or lines[0].strip() == lines[1].strip()
        or not lines[1].strip()
    ):
        return None
    lines[0], lines[1] = lines[1], lines[0]
    return refused(case, "\n".join(lines))


@slip(REFUSED)
def one_line_indented_otherwise(rng: random.Random, case: Case) -> Case | None:
    """In the old text only, or in both where the line stays; deeper, or further out."""
    old, new = case.old.split("\n"), case.new.split("\n")
    inner = [n for n, line in enumerate(old) if n and line.strip()]
    if not inner or not old[0].strip():
        return None
    at, by = rng.choice(inner), rng.choice([1, 2, 4])
    deeper = rng.random() < 0.5 or not old[at].startswith(" " * by)
    line = " " * by + old[at] if deeper else old[at][by:]
    stays = [j for i, j in same(case) if i == at]
    if stays and rng.random() < 0.5:
        new[stays[0]] = line
    old[at] = line
    text = "\n".join(old)
    return (
        None
        if text in case.before or old == new
        else replace(case, old=text, new="\n".join(new), after=None)
    )


@slip(REFUSED)
def spaces_inside_of_quotes(rng: random.Random, case: Case) -> Case | None:
    strings = [m for m in re.finditer(r'"[^"\'`\n\\]*[^\s"\'`\\] [^"\'`\n\\]*"', case.old)
               if not re.search("[\"'`]", case.old[case.old.rfind("\n", 0, m.start()) + 1 : m.start()])]  # fmt: skip
    if not strings:
        return None
    string = rng.choice(strings)
    wider = re.sub(r"(\S) ", r"\1  ", string[0], count=1)
    return replace(
        case, old=case.old[: string.start()] + wider + case.old[string.end() :], after=None
    )


@slip(REFUSED)
def twice_in_the_file(rng: random.Random, case: Case) -> Case | None:
    if not whole(case):
        return None
    before = case.before.rstrip("\n") + "\n" + case.old + "\n"
    starts = (match.start() for match in re.finditer(f"(?={re.escape(case.old)})", before))
    return replace(
        case, before=before, after=None, lines=tuple(before.count("\n", 0, at) + 1 for at in starts)
    )


@slip(REFUSED)
def twice_with_other_margins(rng: random.Random, case: Case) -> Case | None:
    """The text stands at two depths, and the model wrote it at a third one."""
    found = indents(case.old)
    if not whole(case) or "\t" in "".join(found) or found[0]:
        return None
    first = case.before.count("\n", 0, case.before.index(case.old)) + 1
    before = case.before.replace(case.old, each_line(case.old, lambda line: "  " + line)).rstrip(
        "\n"
    )
    more = each_line(case.old, lambda line: "     " + line)
    old = each_line(case.old, lambda line: " " * 9 + line)
    return replace(
        case,
        before=f"{before}\n{more}\n",
        old=old,
        after=None,
        lines=(first, before.count("\n") + 2),
    )


@slip(REFUSED)
def already_applied(rng: random.Random, case: Case) -> Case | None:
    assert case.after is not None
    if " ".join(case.old.split()) in " ".join(case.after.split()):
        return None
    return replace(case, before=case.after, after=None)


# --- either: never wrong --------------------------------------------------------------------------


@slip(EITHER)
def beside_a_near_copy(rng: random.Random, case: Case) -> Case | None:
    """What the model copied with one slip stands elsewhere with another one."""
    copies = [
        each_line(case.old, lambda line: "      " + line),
        case.old.replace("\n", "\n\n"),
        curly(case.old),
    ]
    copy = rng.choice([text for text in copies if text != case.old] or [""])
    if not copy or not whole(case) or not no_trailing(case.new):
        return None
    end = "\n" + copy + "\n"
    changed = replace(case, before=case.before + end, after=(case.after or "") + end)
    slipped = both(changed, lambda text: each_line(text, lambda line: "  " + line))
    return None if slipped.old in changed.before or changed.before.count(case.old) != 1 else slipped


@slip(EITHER)
def trailing_blanks_of_a_changed_line(rng: random.Random, case: Case) -> Case | None:
    """The file has white space at the end of a line that changes: a refusal would be best."""
    lines = case.old.split("\n")
    kept = {i for i, _ in same(case)}
    places = [i for i in range(len(lines) - 1) if i not in kept and lines[i].strip()]
    if not places:
        return None
    at = rng.choice(places)
    lines[at] += rng.choice([" ", "  ", "\t"])
    return replace(case, before=case.before.replace(case.old, "\n".join(lines)), kind="trailing")


@slip(EITHER)
def blank_lines_dropped_everywhere(rng: random.Random, case: Case) -> Case | None:
    pairs, new = {j for _, j in same(case)}, case.new.split("\n")
    old, kept = case.old.split("\n"), {i for i, _ in same(case)}
    if not re.search(r"\n\s*\n", case.old) or any(
        not line.strip() and j not in pairs for j, line in enumerate(new)
    ):
        return None
    if any(not line.strip() and i not in kept for i, line in enumerate(old)):
        return None
    return both(case, lambda text: "\n".join(line for line in text.split("\n") if line.strip()))


@slip(EITHER)
def one_dedented_line_becomes_several(rng: random.Random, case: Case) -> Case | None:
    """Whether the other new lines lack the margin, too, cannot always be told: refused, or
    right.
    """
    return without_margin(case) if "\n" not in case.old and "\n" in case.new else None


@slip(EITHER)
def new_only_dedented(rng: random.Random, case: Case) -> Case | None:
    text = textwrap.dedent(case.new)
    old = textwrap.dedent(case.old)
    elsewhere = old in case.before.replace(case.old, "") or ("\n" in old and old in case.before)
    return replace(case, old=old) if text != case.new and not elsewhere else None


@slip(EITHER)
def escaped_without_care(rng: random.Random, case: Case) -> Case | None:
    """Line ends escaped, backslashes not: an escaped line end of the file looks like one of the
    slip.
    """
    return (
        replace(both(case, lambda text: text.replace("\n", "\\n")), sent=case.new)
        if "\n" in case.old and "\\" in case.old + case.new
        else None
    )


# --- the measurement ------------------------------------------------------------------------------


def verdict(case: Case) -> tuple[str, float]:
    """Apply the edit: ``right``, ``refused``, ``wrong`` or ``changed``, and the seconds it took."""
    begun = time.perf_counter()
    try:
        content = apply_edit(case.before, case.old, case.new).content
    except EditError as error:
        taken = time.perf_counter() - begun
        if case.lines and (error.count != len(case.lines) or error.lines != case.lines):
            return "wrong", taken
        return "refused", taken
    taken = time.perf_counter() - begun
    if not all_as_sent(case, content):
        return "changed", taken
    if (
        case.kind == "trailing" and case.after is not None
    ):  # whether it stays in a line that only moves does not matter
        same = [line.rstrip() for line in content.split("\n")] == [
            line.rstrip() for line in case.after.split("\n")
        ]
        return ("right" if same else "wrong"), taken
    return ("right" if content == case.after else "wrong"), taken


def all_as_sent(case: Case, content: str) -> bool:
    """Whether every line that the edit adds is in the file byte by byte as it was sent, leading
    white space apart.
    """
    text = content.replace("\r", "")
    if case.after is None or case.new.replace("\r", "") in text:
        return True
    old = case.old if case.sent is None else ""
    new = case.new if case.sent is None else case.sent
    bare = (
        {line.strip() for line in case.before.split("\n")} if case.sent is not None else set[str]()
    )
    sent = (
        line
        for line in added_lines(old.replace("\r", ""), new.replace("\r", ""))
        if line.strip() not in bare
    )
    made = Counter(line.lstrip() for line in text.removeprefix("\ufeff").split("\n"))
    return not Counter(line.lstrip(" \t\ufeff") for line in sent) - made


def gather(rng: random.Random, edits: int, folders: list[Path] | None = None, roots: Sequence[str] = ROOTS,
           repository: bool = True) -> list[Case]:  # fmt: skip
    """Collect edits without slips."""
    real = history(rng, max(edits // 4, 10)) if repository else []
    if folders:
        real += versions(folders[0], folders[1], rng, edits)
    texts = files(rng, max(edits // 60, 3), roots)
    cases = list(real)
    for _ in range(edits * 20):
        case = made_up(rng, *rng.choice(texts))
        if case:
            cases.append(case)
        if len(cases) >= len(real) + edits:
            break
    rng.shuffle(cases)
    return cases


def measure(
    rng: random.Random, cases: list[Case], each: int
) -> dict[str, tuple[str, Counter[str], float, list[Case]]]:
    """Try each slip on up to ``each`` edits: by its name its group, the verdicts, the seconds, and
    what went wrong.
    """
    results = {}
    for group, table in (("apply", SAFE), ("refuse", REFUSED), ("either", EITHER)):
        for name, make in table.items():
            counts: Counter[str] = Counter()
            seconds, bad = 0.0, []
            for case in rng.sample(cases, len(cases)):
                if counts.total() == each:
                    break
                slipped = make(rng, case)
                if slipped is None:
                    continue
                found, taken = verdict(slipped)
                counts[found] += 1
                seconds += taken
                if found in ("wrong", "changed") or found != (
                    "refused" if group == "refuse" else "right"
                ):
                    bad.append(replace(slipped, kind=found))
            results[name] = group, counts, seconds, bad
    return results


def worst(size: int = 50_000) -> Iterator[tuple[str, float]]:
    """Time edits of files of ``size`` lines."""
    distinct = [f"    value_{n} = compute({n}, {n * 7})" for n in range(size)]
    alike = ["    x = 1"] * size
    half = size // 2
    third = size // 3
    blank = ["a", "", ""] * third
    stripped = [line.strip() for line in distinct[-20:]]
    spaced = [f"{line} " for line in distinct[:half]]
    for name, lines, old, new in (
        ("exact", distinct, distinct[half], "    y = 2"),
        ("indentation", distinct, "\n".join(stripped), "y = 2"),
        ("not there", distinct, "value_777 = compute(777, 5440)\nx = 1", "y"),
        ("half of it not there", distinct, "\n".join([*distinct[:half], "gone"]), "y"),
        ("half of it, loosely", distinct, "\n".join(spaced), "\n".join([*spaced, "    more()"])),
        ("alike, one line", alike, "    x = 1", "y"),
        ("alike, half of it", alike, "\n".join(alike[:half]), "y"),
        ("alike, half of it, loosely", alike, "\n".join(["x = 1 "] * half), "y"),
        ("alike, not there", alike, "\n".join([*["x = 1 "] * half, "z"]), "y"),
        ("alike, all, loosely", alike, "\n".join(["x = 1 "] * size), "\n".join(["x = 1 "] * (size - 1) + ["x = 2"])),
        ("blank lines", blank, "\n".join(["a"] * third), "\n".join(["a"] * (third - 1) + ["b"])),
        ("all changed, loosely", distinct, "\n".join(f"{line} " for line in distinct),
         "\n".join(f"{line[::-1]} " for line in distinct)),
    ):  # fmt: skip
        begun = time.perf_counter()
        try:
            apply_edit("\n".join(lines) + "\n", old, new)
        except EditError:
            pass
        yield name, time.perf_counter() - begun


def main() -> None:
    """Print the tables."""
    words = sys.argv[1:]
    edits, seed = int(words[0]) if words else 500, int(words[1]) if len(words) > 1 else 1
    rng = random.Random(seed)
    cases = gather(rng, edits * 4, [Path(word) for word in words[2:4]] or None)
    print(f"{len(cases)} edits, {len({c.ending for c in cases})} kinds of file, seed {seed}")
    print(
        f"{'slip':38}{'must':8}{'edits':>7}{'right':>8}{'refused':>9}{'wrong':>7}{'changed':>9}{'applied':>9}{'s / 1,000':>11}"
    )
    total: dict[str, Counter[str]] = defaultdict(Counter)
    spent = 0.0
    for name, (group, counts, seconds, bad) in measure(rng, cases, edits).items():
        tried = counts.total()
        total[group] += counts
        spent += seconds
        shown = f"{1000 * seconds / tried:11.2f}" if tried else ""
        applied = f"{counts['right'] / tried:9.1%}" if tried and group == "apply" else " " * 9
        print(f"{name:38}{group:8}{tried:7}{counts['right']:8}{counts['refused']:9}{counts['wrong']:7}{counts['changed']:9}"
              f"{applied}{shown}")  # fmt: skip
        shown_kinds = os.environ.get("SHOW_KIND", "wrong")
        for case in [c for c in bad if c.kind == shown_kinds][: int(os.environ.get("SHOW", "0"))]:
            print(f"--- {case.kind} {case.ending}\n{case.old}\n--- new\n{case.new}\n---")
            try:
                made = apply_edit(case.before, case.old, case.new).content
                wanted = (case.after or "").split("\n")
                print(
                    "\n".join(
                        difflib.unified_diff(
                            wanted, made.split("\n"), "wanted", "made", lineterm=""
                        )
                    )
                )
            except EditError as error:
                print(error)
    for group, counts in total.items():
        print(f"must {group}: {counts.total()} edits, {dict(counts)}")
    print(f"{1000 * spent / sum(c.total() for c in total.values()):.2f} s for 1,000 edits")
    for name, seconds in worst():
        print(f"50,000 lines, {name:30}{seconds:8.2f} s")


if __name__ == "__main__":
    main()
