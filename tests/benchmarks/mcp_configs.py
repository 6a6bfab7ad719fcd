"""Read published MCP configurations with hilum and compare the result with other parsers.

``python tests/benchmarks/mcp_configs.py FOLDER`` reads every configuration file of a folder (JSON,
JSON with comments, TOML, YAML), and every such block in Markdown files and package descriptions.
Each server must be read or be named in a complaint, and each of its keys must have an effect or be
reported. The repository contains no such folder.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hilum_mcp import read_config
from hilum_mcp.config_reader import TABLES
from hilum_mcp.entries import ADDRESSES, DESCRIPTIVE_KEYS

KINDS = {
    ".json": "json",
    ".jsonc": "json",
    ".json5": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
FENCE = re.compile(
    r"^([ >]*)```[ \t]*(jsonc?|json5|javascript|js|toml|ya?ml)\b[^\n]*\n(.*?)^[ >]*```",
    re.M | re.S | re.I,
)
# By what is written above a block, the file that it is meant for.
FILES = [
    (r"gemini", ".gemini/settings.json"), (r"cline|roo", "cline_mcp_settings.json"), (r"windsurf|codeium", "mcp_config.json"),
    (r"\bzed\b", ".zed/settings.json"), (r"opencode", "opencode.json"), (r"cursor", ".cursor/mcp.json"),
    (r"vs ?code|copilot", ".vscode/mcp.json"), (r"codex", ".codex/config.toml"), (r"goose", "goose/config.yaml"),
]  # fmt: skip
WORDS = (
    "mcpServers",
    "mcp_servers",
    "context_servers",
    '"servers"',
    '"mcp"',
    "extensions:",
    '"command"',
    '"url"',
    "serverUrl",
)


def main() -> int:
    """Read everything and print the result; return 1 if something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbose", "-v", action="store_true", help="each complaint")
    parser.add_argument(
        "--text", "-t", action="store_true", help="the text of each in which no server was found"
    )
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    seen: set[bytes] = set()
    with tempfile.TemporaryDirectory() as name:
        for number, (source, file) in enumerate(found(options.folder, Path(name))):
            content = file.read_bytes()
            if content in seen:
                continue
            seen.add(content)
            counts["files"] += 1
            try:
                config = read_config(file)
            except Exception as error:
                counts["crashed"] += 1
                print(f"✗ {source} #{number}: {error!r}")
                continue
            told = [str(mistake).removeprefix(str(file)) for mistake in config.mistakes]
            lost = list(dropped(plain(file, content), config.servers, told))
            counts["servers"] += len(config.servers)
            counts[
                "with servers" if config.servers else "none, told why" if told else "none, silent"
            ] += 1
            counts["lost"] += len(lost)
            for each in lost:
                print(f"✗ {source} #{number} ({file.name}): {each}")
            if options.verbose or not (config.servers or told):
                print(
                    f"  {source} #{number} ({file.name}): {len(config.servers)} servers {told or ''}"
                )
            if options.text and not config.servers:
                print(content.decode(errors="replace"))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["crashed"] or counts["lost"] or counts["none, silent"] else 0


def found(folder: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield every configuration: where it was found, and a file with it."""
    number = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "node_modules" in path.parts[len(folder.parts) :]:
            continue
        where = str(path.relative_to(folder))
        if path.name in ("package.json", "package-lock.json"):
            continue
        if path.suffix in KINDS and any(
            word.strip('"') in path.read_text(errors="replace") for word in WORDS[:5]
        ):
            yield where, path
        elif path.suffix in (".md", ".mdx") or path.name == "METADATA":
            text = path.read_text(errors="replace")
            for match in FENCE.finditer(text):
                indent, kind, block = match[1], match[2].lower(), match[3]
                block = "\n".join(line.removeprefix(indent) for line in block.split("\n"))
                if not any(word in block for word in WORDS) or not block.lstrip().startswith(
                    ("{", "[", "#", "/", "e", "m", '"')
                ):
                    continue
                if block.lstrip().startswith('"'):  # a part of a file
                    block = f"{{{block.rstrip().rstrip(',')}}}"
                number += 1
                file = scratch / str(number) / meant(text[: match.start()], kind)
                file.parent.mkdir(parents=True)
                file.write_text(block)
                yield where, file


def meant(above: str, kind: str) -> str:
    """Return the name of the file that a block is meant for."""
    near = above[-600:].lower()
    suffix = {"toml": ".toml", "yaml": ".yaml", "yml": ".yaml"}.get(kind, ".json")
    last = max(
        ((m.start(), name) for word, name in FILES for m in re.finditer(word, near)),
        default=(0, "mcp.json"),
    )[1]
    return last if last.endswith(suffix) else f"config{suffix}"


def plain(file: Path, content: bytes) -> Any:
    """Read a file with other parsers; return ``None`` if they cannot."""
    try:
        text = content.decode("utf-8-sig")
        if file.suffix == ".toml":
            return tomllib.loads(text)
        if file.suffix in (".yaml", ".yml"):
            return yaml.safe_load(text)
        return json.loads(text)
    except (ValueError, yaml.YAMLError):
        return None


def dropped(data: Any, servers: Mapping[str, Any], told: list[str]) -> Iterator[str]:
    """Yield values of the data that are neither in the servers nor in the complaints."""
    text = "\n".join(told)
    for name, entry in entries(data):
        if name not in servers:
            if name not in text:
                yield f"the server {name!r} is gone"
            continue
        kept = json.dumps(msgspec.structs.asdict(servers[name]), default=str, ensure_ascii=False)
        for key, value in entry.items():
            if (
                key in DESCRIPTIVE_KEYS
                or key in ("type", "transport", "enabled", "disabled")
                or value in (None, "", [], {}, False, ["*"])
            ):
                continue
            if (
                f"'{key}'" in text
                or f"{key} " in text
                or f".{key}: " in text
                or not any(gone(leaf, kept) for leaf in leaves(value))
            ):
                continue
            yield f"{name}.{key} is gone: {value!r}"


def entries(data: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Yield everything that looks like a server, in any table of servers."""
    if not isinstance(data, Mapping):
        return []
    tables = []
    for keys in TABLES:
        table: Any = data
        for key in keys:
            table = table.get(key) if isinstance(table, Mapping) else None
        tables.append(table)
    tables = [table for table in tables if isinstance(table, Mapping)]
    if not tables and all(isinstance(each, Mapping) for each in data.values()):
        tables = [data]
    return [
        (name, entry)
        for table in tables
        for name, entry in table.items()
        if isinstance(entry, Mapping)
        and any(key in entry for key in ("command", "cmd", *ADDRESSES))
    ]


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *leaves(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif not isinstance(value, bool) and value not in (None, ""):
        yield str(value)


def gone(leaf: str, kept: str) -> bool:
    """Return whether a value is lost, also in other units and as a part of a command."""
    if leaf in ("path", "args", "env"):  # Zed's old command
        return False
    try:
        number = float(leaf)
    except ValueError:
        pass
    else:
        return not any(text in kept for text in (leaf, str(number), str(number / 1_000)))
    return json.dumps(leaf, ensure_ascii=False)[1:-1] not in kept


if __name__ == "__main__":
    sys.exit(main())
