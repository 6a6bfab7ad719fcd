"""Drafts AGENTS.md from facts about a project, and finds what an existing file lacks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hilum_init.project_commands import PURPOSES, Command
from hilum_init.project_facts import Folder, ProjectFacts

MAX_PARTS = 12  # maximum number of packages to list per folder
MAX_OF_PURPOSE = 2  # maximum number of commands per purpose
# Titles of sections, each with a pattern for equivalent headings in other files.
SECTIONS = {
    "Commands": r"command|build|develop|setup|set-up|install|usage|workflow|running",
    "Layout": r"layout|structure|architecture|repository|overview|organi[sz]ation|packages",
    "Conventions": r"convention|style|guideline|standard|rule|code",
    "Documents": r"document|reading|reference|more|further",
}
# Words before the program name that people often omit when they mention a command.
_RUNNERS = re.compile(r"^(uv run|poetry run|pdm run|pipenv run|hatch run|bundle exec|npx) ")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(```|~~~)")


class Addition(msgspec.Struct, frozen=True):
    """An item that an existing AGENTS.md lacks.

    Attributes:
        section: One of ``SECTIONS``.
        text: The item, without a bullet.
    """

    section: str
    text: str


def write_draft(facts: ProjectFacts) -> str:
    """Return the text of AGENTS.md for a project."""
    lines = [f"# {facts.name}", ""]
    if facts.description:
        lines += [facts.description, ""]
    for section, items in _items(facts).items():
        lines += [f"## {section}", "", *(f"- {item}" for item in items), ""]
    return "\n".join(lines)


def list_facts(facts: ProjectFacts) -> str:
    """Return the commands and the layout as a list, without text from the project's files."""
    items = _items(msgspec.structs.replace(facts, ci=()))
    lines = []
    for section in ("Commands", "Layout"):
        lines += [f"- {item}" for item in items.get(section, [])]
    return "\n".join(lines)


def is_empty(facts: ProjectFacts) -> bool:
    """Return whether no facts worth writing down were found."""
    return not facts.commands and not facts.languages


def _items(facts: ProjectFacts) -> dict[str, list[str]]:
    """Return the items of each non-empty section."""
    sections = {
        "Commands": list(_command_items(facts)),
        "Layout": [_folder_item(folder) for folder in facts.folders],
        "Conventions": list(facts.conventions),
        "Documents": [f"Before larger changes, read `{name}`." for name in facts.documents],
    }
    return {name: items for name, items in sections.items() if items}


def _command_items(facts: ProjectFacts) -> Iterator[str]:
    for purpose in PURPOSES:
        chosen = [command for command in facts.commands if command.purpose == purpose]
        for command in chosen[:MAX_OF_PURPOSE]:
            yield _command_item(command)
    known = {command.line for command in facts.commands}
    extra = [f"`{command.line}`" for command in facts.ci if command.line not in known]
    if extra:
        yield f"CI also runs: {', '.join(extra)}"


def _command_item(command: Command) -> str:
    return f"{command.purpose}: `{command.line}`"


def _folder_item(folder: Folder) -> str:
    kind = f"{folder.language}, " if folder.language else ""
    count = "1 file" if folder.files == 1 else f"{folder.files} files"
    text = f"`{folder.name}/`: {kind}{count}"
    if folder.parts:
        named = ", ".join(f"`{part}`" for part in folder.parts[:MAX_PARTS])
        left = len(folder.parts) - MAX_PARTS
        text += f"; contains {named}" + (f" and {left} more" if left > 0 else "")
    return text


# --- an existing file -----------------------------------------------------------------------------


def find_additions(facts: ProjectFacts, text: str, others: str = "") -> list[Addition]:
    """Return the items that are neither in AGENTS.md nor in other rules files.

    Args:
        facts: The project.
        text: The text of the existing file.
        others: The text of the project's other rules files.
    """
    known = _plain(f"{text}\n{others}")
    found = []
    for command in _missing_commands(facts.commands, known):
        found.append(Addition("Commands", _command_item(command)))
    titles = [match[2].lower() for match in map(_HEADING.match, text.splitlines()) if match]
    for section, items in _items(facts).items():
        if section == "Commands":
            continue
        # If the file already describes the layout, its author has chosen what to mention.
        if section == "Layout" and any(re.search(SECTIONS[section], title) for title in titles):
            continue
        found += [Addition(section, item) for item in items if not _is_known(item, known)]
    return found


def _missing_commands(commands: Iterable[Command], known: str) -> Iterator[Command]:
    """Yield one command for each purpose for which a text names no command."""
    named: set[str] = set()
    missing: dict[str, Command] = {}
    for command in commands:
        if _program(command.line) in known:
            named.add(command.purpose)
        else:
            missing.setdefault(command.purpose, command)
    # The author of a file with a test command has chosen one of several ways to run the tests.
    for purpose, command in missing.items():
        if purpose not in named and not (purpose == "One test" and "Test" in named):
            yield command


def _program(line: str) -> str:
    """Return the part that identifies a command, such as ``pytest`` in ``uv run pytest``."""
    words = _RUNNERS.sub("", line).split()
    # The last word of `npm run lint` or `cargo test` identifies the task; a path or an option does
    # not.
    kept = [word for word in words[:3] if not word.startswith(("-", ".")) and "/" not in word]
    return _plain(" ".join(kept)) if kept else _plain(line)


def _is_known(item: str, known: str) -> bool:
    """Return whether a text mentions the name or number that identifies an item."""
    quoted = re.findall(r"`([^`]+)`", item)
    if quoted:
        return all(_plain(part).rstrip("/") in known for part in quoted[:1])
    numbers = re.findall(r"\d+(?:\.\d+)?", item)
    if numbers:
        return all(number in known for number in numbers)
    return _plain(item.rstrip(".")) in known


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def find_stale_commands(text: str, targets: set[str], scripts: set[str]) -> list[str]:
    """Return the commands in AGENTS.md that no longer exist in the project.

    Args:
        text: The text of the file.
        targets: The targets of the Makefile; empty if there is none.
        scripts: The scripts of package.json; empty if there is none.
    """
    found = []
    for quoted in re.findall(r"`([^`\n]+)`", text):
        make = re.fullmatch(r"make ([A-Za-z][\w.-]*)", quoted.strip())
        script = re.fullmatch(r"(?:npm|pnpm|yarn|bun) run ([\w:.-]+)", quoted.strip())
        is_gone = (make and targets and make[1] not in targets) or (
            script and scripts and script[1] not in scripts
        )
        if is_gone:
            found.append(quoted.strip())
    return list(dict.fromkeys(found))


def add_items(text: str, additions: Sequence[Addition]) -> str:
    """Return a text with each item added at the end of its section.

    Nothing else is changed. A section that does not exist is added at the end.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = _split(text)
    for section in SECTIONS:
        items = [f"- {each.text}{end}" for each in additions if each.section == section]
        if not items:
            continue
        place = _find_end(lines, section)
        if place is None:
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += end
            if lines and lines[-1].strip():
                lines.append(end)
            lines += [f"## {section}{end}", end, *items]
            continue
        if not lines[place - 1].endswith("\n"):
            lines[place - 1] += end
        # Added items continue an existing list; a blank line separates them from anything else.
        if not re.match(r"\s*([-*+]|\d+[.)])\s", lines[place - 1]):
            items.insert(0, end)
        lines[place:place] = items
    return "".join(lines)


def _split(text: str) -> list[str]:
    """Return the lines of a text with their newlines; only line feeds end a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _find_end(lines: Sequence[str], section: str) -> int | None:
    """Return the index at which a section's content ends, or ``None`` if there is no such section.

    A heading with the exact title is preferred to a heading with a related word. The title of the
    file itself is not a section.
    """
    headings = []
    fenced = False
    for index, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        match = None if fenced else _HEADING.match(line)
        if match:
            headings.append((index, len(match[1]), match[2].lower()))
    chosen = [each for each in headings if each[2] == section.lower()]
    chosen += [each for each in headings if each[1] > 1 and re.search(SECTIONS[section], each[2])]
    if not chosen:
        return None
    start = chosen[0][0]
    # The section ends at the next heading of any level.
    place = next((index for index, _, _ in headings if index > start), len(lines))
    while place > start + 1 and not lines[place - 1].strip():
        place -= 1
    return place


def format_diff(old: str, new: str, name: str) -> str:
    """Return the difference between two texts as a patch that ``git apply`` accepts."""
    pieces = []
    lines = difflib.unified_diff(_split(old), _split(new), f"a/{name}", f"b/{name}")
    for line in lines:
        pieces.append(line)
        if not line.endswith("\n"):
            pieces.append("\n\\ No newline at end of file\n")
    return "".join(pieces)
