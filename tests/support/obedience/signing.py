"""Signs the rules as a user does: a model over HTTP proposes, ``hilum rules compile`` signs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio
from hilum_replay.server import serve
from hilum_rules.discovery import find_paths
from hilum_rules.rule_store import RuleStore
from hilum_rules.settings import RulesSettings

from tests.support.obedience.rules import RULES, Rule, format_rules

_EXAMPLES = {
    "host": ("run", "curl https://{}", "run", "curl https://other.example.com"),
    "run": ("run", "{}", "run", "ls docs"),
    "preceded": ("run", "{}", "run", "ls docs"),
    "message": ("run", "git commit -m '{}'", "run", "git commit -m 'feat: add a page'"),
    "write": ("write", "{}", "write", "notes/other.md"),
    "create": ("write", "{}", "write", "notes/other.md"),
    "delete": ("run", "rm {}", "run", "ls docs"),
    "read": ("read", "{}", "read", "notes/other.md"),
    "tool": ("call", "{}", "call", "read_file"),
}


def _propose(rule: Rule) -> dict[str, Any]:
    """Return the proposal of a model that has understood a rule."""
    target = rule.targets[0]
    if rule.kind == "content":
        text, path = target
        matches = [{"do": "write", "what": path, "content": text}]
        others = [{"do": "write", "what": path, "content": "a"}]
    else:
        do, what, other_do, other = _EXAMPLES[rule.kind]
        matches = [{"do": do, "what": what.format(target)}]
        others = [{"do": other_do, "what": other}]
    return {"enforce": [rule.enforce], "must_match": matches, "must_not_match": others}


def _answer(request: Any) -> str:
    """Answer as a model that proposes the check of each sentence."""
    asked = json.loads(request.body)["messages"][-1]["content"]
    text = asked if isinstance(asked, str) else asked[0]["text"]
    groups = json.loads(text.partition("The sentences:\n")[2])
    sentences = [
        {"id": each["id"], "sentence": f"{group['above']} {each['sentence']}".strip()}
        for group in groups
        for each in group["sentences"]
    ]
    signed = [rule for rule in RULES if rule.source == "signed"]
    proposals = [
        {"id": each["id"], **_propose(rule)}
        for each in sentences
        for rule in signed
        if _same(rule.sentence, each["sentence"])
    ]
    return f"```json\n{json.dumps({'proposals': proposals})}\n```"


def _same(one: str, other: str) -> bool:
    return one.replace("`", "") == other.replace("`", "")


def write_rules(root: Path, rules: tuple[Rule, ...] = RULES) -> None:
    """Write the files of rules into a project. Blocks."""
    for name, text in format_rules(rules).items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


async def sign(root: Path, folder: Path) -> list[Any]:
    """Write the rules into a project, sign them, and return the enforced rules in their order.

    Args:
        root: The root of the project.
        folder: A folder for the user's settings and data.
    """
    write_rules(root)
    async with serve(_answer) as server:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "user"),
            "HILUM_CONFIG": str(folder / "user" / "config"),
            "HILUM_DATA": str(folder / "user" / "data"),
            **server.environ,
        }
        (folder / "user" / "config").mkdir(parents=True, exist_ok=True)
        compiling = ["rules", "compile", "--model", "openai/scripted"]
        printed = await _run_hilum(root, environment, *compiling, "--json")
    numbers = [each["number"] for each in json.loads(printed)["proposals"] if each["enforce"]]
    await _run_hilum(root, environment, "rules", "compile", "--accept", *numbers)
    return load_rules(root, folder)


async def _run_hilum(root: Path, environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "hilum", *arguments]
    done = await trio.run_process(
        command, cwd=root, env=environment, capture_stdout=True, capture_stderr=True, check=False
    )
    if done.returncode:
        raise subprocess.CalledProcessError(
            done.returncode, command, done.stdout, done.stderr
        ) from RuntimeError(done.stderr.decode())
    return done.stdout.decode()


def load_rules(root: Path, folder: Path) -> list[Any]:
    """Return the enforced rules of a project, in the order of ``RULES``."""
    store = RuleStore(find_paths(root, folder / "user" / "config"), RulesSettings())
    store.load()
    loaded = [rule for rule in store.snapshot.bundle.rules if rule.check is not None]
    ordered = []
    for rule in RULES:
        found = [each for each in loaded if _same(each.sentence, rule.sentence)]
        if len(found) != 1:
            raise LookupError(f"rule {rule.number} is not enforced: {rule.sentence}")
        ordered += found
    return ordered
