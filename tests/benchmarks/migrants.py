"""What hilum makes of the settings that public repositories have for other agents.

``python tests/benchmarks/migrants.py FOLDER`` expects one folder for each repository, with the files
of other agents in it. For each, it prints

- how many of its files and keys ``hilum import --dry-run`` lists (as working, to be taken over, or
  not used with the reason), and which it does not;
- how many of its deny rules refuse a call in the first session, without a question;
- how many of its commands become prompts, typed with arguments;
- how many of its hooks run on an event that they are for.

The lists of files, keys and rules are read here, and not by hilum's own readers.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import trio
from hilum import UsageError
from hilum.errors import PromptDenied
from hilum.events import PluginEvent, PromptQueued
from hilum.testing import open_bench
from hilum.trust import TrustedFolders

PLACES = (
    ".claude",
    ".codex",
    ".gemini",
    ".opencode",
    ".cursor",
    ".github/prompts",
    ".vscode/settings.json",
    ".vscode/mcp.json",
    ".mcp.json",
    "opencode.json",
    "opencode.jsonc",
)
"""Where other agents keep files in a project."""
# The kinds of reports that stand for a key as a whole.
KINDS = {
    "permissions": "permissions",
    "permission": "permissions",
    "hooks": "hooks",
    "mcpServers": "MCP servers",
    "mcp_servers": "MCP servers",
    "servers": "MCP servers",
    "mcp": "MCP servers",
    "command": "commands",
}
LISTS = ("allowedTools",)
"""Keys whose values are lists of permissions."""
TYPED = "src/a.py 'two words' --flag; echo no"


# --- files and keys -------------------------------------------------------------------------------


def list_files(root):
    """Return the files of other agents in a project."""
    found = []
    for place in PLACES:
        path = root / place
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    return [path for path in found if path.is_file()]


def read_data(path):
    """Return the content of a settings file; None if it is not one."""
    if path.suffix == ".toml" and path.name == "config.toml":
        return tomllib.loads(path.read_text())
    if path.suffix in (".json", ".jsonc"):
        text = re.sub(r"(?m)^\s*//.*$", "", path.read_text())
        return json.loads(re.sub(r",(?=\s*[}\]])", "", text))
    return None


def list_keys(path):
    """Yield the keys of a settings file that must be listed, as paths."""
    for key, value in (read_data(path) or {}).items():
        if key in KINDS or not isinstance(value, dict) or not value:
            yield (key,)
        else:
            yield from ((key, inner) for inner in value)


def run_import(root, environ):
    """Return the report of the program."""
    command = [sys.executable, "-m", "hilum", "import", "--dry-run", "--json", "-C", root]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["files"]


def is_listed(path, files):
    """Return whether a file, or the folder that it is in, is in the report."""
    reported = [Path(file["path"]) for file in files]
    return any(path == each or each in path.parents for each in reported)


def is_key_listed(path, keys, files):
    """Return whether a report about a file names a key."""
    reports = [file for file in files if file["path"] == str(path)]
    kind = "permissions" if keys[0] == "tools" else KINDS.get(keys[0])
    if kind in [file["kind"] for file in reports]:
        return True
    rows = []
    for file in reports:
        rows += file["works"] + file["left"] + [offer["text"] for offer in file["offers"]]
        rows += file["problems"]
    names = [".".join(keys), keys[0]]
    text = "\n".join(rows)
    if keys[0] in LISTS:
        # Each tool in the list is listed by itself.
        return all(each in text for each in read_data(path)[keys[0]])
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w-])", text) for name in names)


# --- deny rules -----------------------------------------------------------------------------------


def list_denials(path):
    """Yield the entries of a file that deny, each with a call that it is about."""
    name = path.name
    if name.endswith(".rules"):
        # The language is a subset of Python.
        for rule in re.findall(r"prefix_rule\((.*?)\n?\)\n", path.read_text(), re.DOTALL):
            fields = eval(f"dict({rule})", {})
            if fields.get("decision") in ("forbidden", "deny"):
                choices = [each if isinstance(each, list) else [each] for each in fields["pattern"]]
                for words in itertools.product(*choices):
                    yield " ".join(words), run(" ".join(words))
        return
    if path.parent.name == "policies":
        rules = tomllib.loads(path.read_text()).get("rule", [])
        for rule in rules:
            # A rule without a decision is a mistake of its author.
            is_open = rule.get("decision") == "deny" and "pathPattern" not in rule
            if is_open and not is_replaced(rule, rules):
                yield f"{rule['toolName']} {rule}", gemini_call(rule)
        return
    data = read_data(path) or {}
    denied = data.get("permissions", {})
    if name in ("settings.json", "settings.local.json", "cli.json") and isinstance(denied, dict):
        for text in denied.get("deny", []):
            yield text, agent_call(text)
    if name in ("opencode.json", "opencode.jsonc"):
        for tool, given in data.get("permission", {}).items():
            for pattern, word in (given if isinstance(given, dict) else {"*": given}).items():
                if word == "deny":
                    yield f"{tool}: {pattern}", opencode_call(tool, pattern)


def is_replaced(rule, rules):
    """Return whether a rule of Gemini CLI with a higher priority allows all calls of the tool."""
    conditions = {"commandPrefix", "commandRegex", "argsPattern", "mcpName", "modes"}
    return any(
        each["decision"] == "allow"
        and each["toolName"] == rule["toolName"]
        and each["priority"] > rule["priority"]
        and not conditions & each.keys()
        for each in rules
    )


def run(command):
    """Return a call of the shell."""
    return "run_terminal_cmd", {"command": command}


def fill(pattern):
    """Return a path that a pattern matches."""
    pattern = re.sub(r"^\$HOME|^~", os.environ["HOME"], pattern)
    # Some people write spaces around the wildcards.
    pattern = re.sub(r"\s*(\*\*|/)\s*", r"\1", pattern.strip())
    return pattern.replace("**", "a/b").replace("*", "x")


def agent_call(text):
    """Return a call that a rule of Claude Code or Cursor is about."""
    name, _, pattern = text.rstrip(")").partition("(")
    if name in ("Bash", "Shell"):
        pattern = pattern.strip()
        words = re.sub(r":\*$|\s*\*$", "", pattern).strip()
        return run(f"{words} abc" if pattern.endswith("*") else words)
    if name in ("Edit", "Write"):
        return "write_file", {"path": fill(pattern), "content": "x"}
    if name == "Grep":
        return "search_files", {"pattern": "x", "path": fill(pattern)}
    if name == "Glob":
        return "list_directory", {"path": os.path.dirname(fill(pattern))}
    return "read_file", {"path": fill(pattern)}


def gemini_call(rule):
    """Return a call that a policy of Gemini CLI is about."""
    calls = {
        "run_shell_command": run("make deploy"),
        "list_directory": ("list_directory", {"path": "src"}),
        "search_file_content": ("search_files", {"pattern": "x"}),
        "grep_search": ("search_files", {"pattern": "x"}),
        "read_file": ("read_file", {"path": "src/a.py"}),
    }
    return calls[rule["toolName"]]


def opencode_call(tool, pattern):
    """Return a call that a permission of opencode is about."""
    if tool == "bash":
        return run(pattern.replace("*", "abc").strip())
    if tool in ("edit", "write"):
        return "write_file", {"path": fill(pattern), "content": "x"}
    return "read_file", {"path": fill(pattern)}


async def try_denials(base, denials):
    """Return the entries whose calls the first session does not refuse, or asks about."""
    through = []
    plugins = ("guard", "files", "search", "shell")
    options = {"folder": base, "patience": 60, "faults": True, "kind": "headless"}
    async with open_bench(*plugins, **options) as bench:
        for written, (tool, arguments) in denials:
            result = await bench.call(tool, **arguments)
            # Where nobody can answer, a question is a refusal, too; it does not name a rule.
            is_refused = result.code in ("E_BLOCKED", "E_PATH_TRAVERSAL")
            if "rule denies it" not in result.text and not is_refused:
                through.append(f"{written}: {tool} {arguments}: {result.code} {result.text[:160]}")
    return through


# --- commands -------------------------------------------------------------------------------------


async def try_commands(base):
    """Return the number of commands, and those that do not become a prompt, with the reason."""
    failed = []
    count = 0
    plugins = ("guard", "files", "shell", "plan", "agents", "commands")
    answers = ["ok"] * 2_000
    async with open_bench(*plugins, folder=base, answers=answers, patience=120) as bench:
        names = [
            each.name for plugin, each in bench.session.list_commands() if plugin == "commands"
        ]
        for name in names:
            count += 1
            seen = len(bench.of(PromptQueued))
            try:
                run_of_command = await bench.start(f"/{name} {TYPED}")
            except UsageError as error:
                failed.append(f"/{name}: {error}")
                continue
            await run_of_command.wait()
            queued = bench.of(PromptQueued)[seen:]
            if not queued or queued[0].text.startswith(f"/{name}"):
                failed.append(f"/{name}: it was sent as it is")
    return count, failed


# --- hooks ----------------------------------------------------------------------------------------


async def try_hooks(base, root):
    """Return how each hook ended, by its place."""
    from hilum_hooks_claude.approvals import approve
    from hilum_hooks_claude.listing import read_hooks

    judged, _ = read_hooks(root)
    approve(root, [each for each in judged if each.hook.source != "user"])
    ended = {}
    async with open_bench(
        "guard",
        "files",
        "shell",
        "hooks_claude",
        folder=base,
        patience=120,
        faults=True,
        kind="headless",
    ) as bench:
        calls = (
            ("run_terminal_cmd", {"command": "echo one"}),
            ("write_file", {"path": "src/new.ts", "content": "let a = 1\n"}),
            ("read_file", {"path": "src/a.py"}),
        )
        for tool, arguments in calls:
            # A hook may have blocked the prompt.
            with contextlib.suppress(AssertionError, PromptDenied):
                await bench.call(tool, **arguments)
        for event in bench.of(PluginEvent):
            if event.name == "hooks_claude.ran":
                for each in event.data["hooks"]:
                    ended.setdefault(each["place"], each)
    return [each.hook for each in judged], ended


# --- the table ------------------------------------------------------------------------------------


def measure(folder, shown):
    """Return the row of a repository, and print what is wrong."""
    with tempfile.TemporaryDirectory(prefix="hilum-migrants-") as made:
        base = Path(made).resolve()
        root = base / "workspace"
        shutil.copytree(folder, root)
        (root / "src").mkdir(exist_ok=True)
        (root / "src/a.py").write_text("x = 1\n")
        for name in ("home", "config", "data"):
            (base / name).mkdir()
        environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environ |= {
            "HOME": str(base / "home"),
            "HILUM_CONFIG": str(base / "config"),
            "HILUM_DATA": str(base / "data"),
        }
        os.environ |= environ
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["commit", "-qm", "one"],
            ["commit", "-qm", "two", "--allow-empty"],
        ):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=root, check=True
            )
        wrong = []
        files = run_import(root, environ)
        listed = list_files(root)
        wrong += [
            f"file: {path.relative_to(root)}" for path in listed if not is_listed(path, files)
        ]
        keys = [(path, each) for path in listed for each in list_keys(path)]
        wrong += [
            f"key: {path.relative_to(root)}: {'.'.join(each)}"
            for path, each in keys
            if not is_key_listed(path, each, files)
        ]
        denials = [each for path in listed for each in list_denials(path)]
        for _, (tool, arguments) in denials:
            # A folder that does not exist cannot be listed anyway.
            if tool == "list_directory":
                (root / arguments["path"]).mkdir(parents=True, exist_ok=True)
        through = trio.run(try_denials, base, denials) if denials else []
        wrong += [f"deny: {each}" for each in through]
        TrustedFolders(base / "config").add(root)
        count, failed = trio.run(try_commands, base)
        wrong += [f"command: {each}" for each in failed]
        hooks, ended = trio.run(try_hooks, base, root)
        ran = [ended[each.place] for each in hooks if each.place in ended]
        if shown:
            wrong += [f"hook: {each}" for each in ran]
        row = (
            folder.name,
            f"{len(listed)}/{len(listed) - sum(each.startswith('file') for each in wrong)}",
            f"{len(keys)}/{len(keys) - sum(each.startswith('key') for each in wrong)}",
            f"{len(denials)}/{len(denials) - len(through)}",
            f"{count}/{count - len(failed)}",
            f"{len(hooks)}/{len(ran)}",
        )
        return row, wrong


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with a folder for each repository")
    parser.add_argument("--only", default="", help="only the repositories with this in their names")
    parser.add_argument("--hooks", action="store_true", help="show how each hook ended")
    options = parser.parse_args()
    print(f"{'repository':<48}{'files':>10}{'keys':>10}{'denials':>10}{'commands':>10}{'hooks':>8}")
    print(f"{'':<48}{'each: in the files / listed, refused, expanded, run':>48}")
    for folder in sorted(options.folder.iterdir()):
        if not folder.is_dir() or options.only not in folder.name:
            continue
        row, wrong = measure(folder, options.hooks)
        print(
            f"{row[0]:<48}{row[1]:>10}{row[2]:>10}{row[3]:>10}{row[4]:>10}{row[5]:>8}", flush=True
        )
        for each in wrong:
            print(f"    {each}")


if __name__ == "__main__":
    main()
