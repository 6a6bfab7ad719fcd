"""Exports rules: files below ``.claude/rules`` for Claude Code, sections of ``AGENTS.md`` for others."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from hilum import config_folder
from hilum.config_files import read_regular_file
from hilum_rules import Mode
from hilum_rules.discovery import FoundFile, RulesFinder, find_paths
from hilum_rules.front_matter import read_front_matter

from hilum_export.exported_file import ExportedFile, NotExported, Target, show_path

AGENTS_FILE = "AGENTS.md"
CLAUDE_FILE = "CLAUDE.md"
CODEX_LIMIT = 32_768  # bytes of all AGENTS.md files that Codex reads
MAX_BYTES = 1_000_000
_BEGIN = "<!-- exported by hilum from {} -->"
_END = "<!-- end of {} -->"
_SECTION = re.compile(
    r"\n*<!-- exported by hilum from (?P<name>.*?) -->\n.*?<!-- end of (?P=name) -->\n*", re.DOTALL
)
_CHECK_FILES = (".hilum/rules.toml", ".hilum/rules.lock")
# The formats that Claude Code reads itself.
_CLAUDE_DIALECTS = ("claude", "claude-rules")


@attrs.frozen
class _RulesText:
    """The text of a rules file, and when it is active.

    Attributes:
        source: The file, relative to the project.
        dialect: Its format.
        mode: When it is active.
        globs: The files for which it is active.
        description: What it is about.
        body: The rules.
        name: Its name without folder and ending.
    """

    source: str
    dialect: str
    mode: Mode
    globs: tuple[str, ...]
    description: str
    body: str
    name: str


def export_rules(root: Path, target: Target) -> Iterator[ExportedFile | NotExported]:
    """Yield the rules in the project's root folder in the format of another program. Blocks.

    Args:
        root: The project.
        target: The program.
    """
    finder = RulesFinder(find_paths(root, config_folder()))
    texts: list[_RulesText] = []
    for found in finder.find_folder_files(Path(os.path.realpath(root))):
        if found.dialect == "table":
            continue  # checks, about which `_CHECK_FILES` says why they are not exported
        source = show_path(Path(os.path.realpath(root)), found.path)
        if found.path.name.casefold() == "claude.local.md":
            yield NotExported(source, "It contains your own rules, which are not committed.")
            continue
        text = _read(found, source)
        if isinstance(text, NotExported):
            yield text
        elif text.mode is Mode.MANUAL:
            yield NotExported(source, "Rules that you name with @ have no counterpart.")
        else:
            texts.append(text)
    for name in _CHECK_FILES:
        if (root / name).exists():
            yield NotExported(name, "Only hilum enforces rules; the others only read them.")
    if target == "claude":
        yield from _make_claude_files(root, texts)
    else:
        yield from _make_agents_file(root, texts, target)


def _read(found: FoundFile, source: str) -> _RulesText | NotExported:
    real = Path(os.path.realpath(found.path))
    if found.fence is not None and not real.is_relative_to(found.fence.root):
        return NotExported(source, "It is a link that leads out of the project.")
    try:
        # A pipe would block, and a device may never end.
        data = read_regular_file(real, MAX_BYTES)
    except OSError as error:
        return NotExported(source, f"It cannot be read: {error.strerror or error}.")
    except ValueError as error:
        return NotExported(source, f"It is {error}.")
    front = read_front_matter(data, found.dialect)
    name = re.sub(r"[^\w.-]+", "-", found.name or found.path.name.split(".")[0] or "rules")
    if found.path.name.startswith("."):
        name = found.path.name.lstrip(".")
    body = front.body.strip("\n")
    return _RulesText(source, found.dialect, front.mode, front.globs, front.description, body, name)


def _find_lost(text: _RulesText) -> tuple[str, ...]:
    if text.mode is Mode.AGENT:
        return (
            "The rules are always active; in hilum, the model reads them if their description fits.",
        )
    return ()


# --- Claude Code ----------------------------------------------------------------------------------


def _make_claude_files(root: Path, texts: Sequence[_RulesText]) -> Iterator[ExportedFile]:
    if any(text.dialect == "agents" for text in texts):
        yield from _import_agents_file(root, texts)
    for text in texts:
        if text.dialect == "agents" or text.dialect in _CLAUDE_DIALECTS:
            continue
        header = ""
        if text.mode is Mode.AUTO:
            listed = "".join(f"  - {json.dumps(glob, ensure_ascii=False)}\n" for glob in text.globs)
            header = f"---\npaths:\n{listed}---\n\n"
        elif text.body.startswith("---"):
            header = "\n"  # a horizontal rule, and no front matter
        data = f"{header}{text.body}\n".encode()
        yield ExportedFile(f".claude/rules/{text.name}.md", data, text.source, _find_lost(text))


def _import_agents_file(root: Path, texts: Sequence[_RulesText]) -> Iterator[ExportedFile]:
    """Yield a ``CLAUDE.md`` that imports ``AGENTS.md``, unless there is one already."""
    source = next(text.source for text in texts if text.dialect == "agents")
    line = f"@{source}"
    owned = [text for text in texts if text.dialect == "claude"]
    if any(re.search(rf"(?m)^{re.escape(line)}\s*$", text.body) for text in owned):
        return
    old = _read_text(root / CLAUDE_FILE)
    if old is None:
        yield ExportedFile(CLAUDE_FILE, f"{line}\n".encode(), source)
    else:
        data = f"{line}\n\n{old}".encode(errors="surrogateescape")
        yield ExportedFile(CLAUDE_FILE, data, source, keeps_old=True)


# --- AGENTS.md ------------------------------------------------------------------------------------


def _make_agents_file(
    root: Path, texts: Sequence[_RulesText], target: Target
) -> Iterator[ExportedFile | NotExported]:
    # Several files may have the same rules, for example because an earlier export made one of them.
    name = next((text.source for text in texts if text.dialect == "agents"), AGENTS_FILE)
    # This file must not import itself, as a `CLAUDE.md` does. One that does nothing else adds nothing.
    imports = re.compile(rf"(?m)^@(?:\./)?{re.escape(name)}[ \t]*(?:\n+|\Z)")
    by_body: dict[str, _RulesText] = {}
    for text in reversed(texts):
        body = imports.sub("", text.body).strip("\n")
        if text.dialect != "agents" and body.strip():
            by_body[body] = attrs.evolve(text, body=body)
    others = list(reversed(by_body.values()))
    if not others:
        return
    old = _read_text(root / name)
    kept = _SECTION.sub("\n\n", old).strip("\n") if old is not None else ""
    sections = [_make_section(text) for text in others]
    data = ("\n\n".join(filter(None, [kept, *sections])) + "\n").encode(errors="surrogateescape")
    lost = [
        f"hilum reads these rules twice, here and in {', '.join(text.source for text in others)}."
        " If you continue with hilum, keep one of them."
    ]
    for text in others:
        lost += [f"{text.source}: {each}" for each in _find_lost(text)]
        if text.mode is Mode.AUTO:
            lost.append(f"{text.source}: The files it applies to are named only in words.")
        if re.search(r"(?m)^@[\w./~-]+\s*$", text.body):
            lost.append(f"{text.source}: Imports (@path) are text in AGENTS.md.")
    if target == "codex" and len(data) > CODEX_LIMIT:
        lost.append(f"Codex reads only the first {CODEX_LIMIT:,} of {len(data):,} bytes.")
    source = ", ".join(text.source for text in others)
    yield ExportedFile(name, data, source, tuple(lost), keeps_old=old is not None)


def _make_section(text: _RulesText) -> str:
    applies = ""
    if text.mode is Mode.AUTO:
        listed = ", ".join(f"`{glob}`" for glob in text.globs)
        applies = f"The rules of this section apply to {listed}.\n\n"
    begin = _BEGIN.format(text.source)
    return f"{begin}\n\n## {text.name}\n\n{applies}{text.body}\n\n{_END.format(text.source)}"


def _read_text(path: Path) -> str | None:
    """Return the text of a file; ``None`` if there is none."""
    try:
        if not path.is_file():  # reading a pipe would block
            return None
        return path.read_bytes().decode(errors="surrogateescape")
    except OSError:
        return None
