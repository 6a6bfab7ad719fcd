"""How many sentences of published rules files become checks, and what the checks refuse wrongly.

Run: ``python tests/benchmarks/rule_files.py FOLDER``. The folder is not a part of hilum:

``files/OWNER__REPO/…``
    the rules files of public repositories;
``reader1.jsonl``, ``reader2.jsonl``
    the sentences that each of two readers calls enforceable: ``repo``, ``file``, ``line`` and
    ``sentence``. What both name is counted; without a second list, what the first names;
``answers.jsonl``
    what a capable model proposed: ``repo``, a part of the ``sentence``, and the proposal. To every
    other sentence, the recorded model answers that it is advice;
``rightly.jsonl``
    refusals that a person found right: ``repo``, and parts of the ``sentence`` and the ``call``.

For each repository, the rules are loaded in a session, the recorded model is asked as ``hilum rules
compile`` asks it, and every proposal that passes is signed. Then harmless calls are judged: those
of every agent, and every command in the code blocks of the rules file. The required command of
"run X before Y" counts as run. ``--save`` stores each request with its answer in ``requests``.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import hilum_checks as checks
import hilum_files
import hilum_guard
import hilum_rules
import hilum_search
import hilum_shell
import trio
from hilum.testing import ScriptedModel, open_bench
from hilum_checks.call_history import CallHistory
from hilum_rules.nested_folders import find_nested_folders
from hilum_rules.rule import Rule
from hilum_rules_compile.asking import ask_for_proposals
from hilum_rules_compile.compile_command import verify_items
from hilum_rules_compile.decisions import Decision, Item, sign
from hilum_rules_compile.past_calls import History
from hilum_rules_compile.undecided import needs_decision

CALLS = 500
"""Minimum number of harmless calls for each repository."""
SEED = 18
NAMED_ONLY = ["CONVENTIONS.md", "guidelines.md"]
"""Rules files that agents read only because their settings name them."""
PLUGINS = (hilum_guard, hilum_files, hilum_search, hilum_shell, hilum_rules)


class Sentence(NamedTuple):
    """A sentence that a reader calls enforceable."""

    repo: str
    file: str
    line: int
    text: str


class Refusal(NamedTuple):
    """A harmless call that a check refuses or asks about."""

    repo: str
    sentence: str
    call: str
    reason: str


class Found(NamedTuple):
    """What was found about a repository."""

    repo: str
    enforceable: int
    by_forms: int
    by_all: int
    signed: int
    calls: int
    refusals: list[Refusal]
    missed: list[Sentence]
    rejected: list[str]
    by_form_texts: list[str]


class Done(CallHistory):
    """A session in which every required command has run, and every such file was read."""

    def must_wait(self, constraint: object, facts: object, required: object = ()) -> bool:
        return False

    def has_run(self, commands: object, root: object) -> bool:
        return True

    def has_read(self, needed: object, root: object) -> bool:
        return True

    def is_due(self, constraint: object, root: object, required: object = ()) -> bool:
        return False


# --- what the readers say -------------------------------------------------------------------------


def letters(text: str) -> str:
    """A text without all that is not a letter or a digit."""
    return re.sub(r"[\W_]+", "", text).casefold()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one JSON object a line; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def read_list(path: Path) -> list[Sentence]:
    """The list of a reader."""
    return [
        Sentence(each["repo"], each["file"], each["line"], each["sentence"])
        for each in read_lines(path)
    ]


def is_same(one: Sentence, other: Sentence) -> bool:
    """Whether two readers mean the same sentence."""
    if (one.repo, one.file) != (other.repo, other.file) or abs(one.line - other.line) > 1:
        return False
    first, second = letters(one.text), letters(other.text)
    if first[:40] in second or second[:40] in first:
        return True
    words, others = (set(re.findall(r"\w+", each.text.casefold())) for each in (one, other))
    return 2 * len(words & others) > min(len(words), len(others)) > 2


def enforceable(folder: Path) -> list[Sentence]:
    """The sentences that both readers call enforceable."""
    first = read_list(folder / "reader1.jsonl")
    second = read_list(folder / "reader2.jsonl")
    if not second:
        return first
    return [one for one in first if any(is_same(one, other) for other in second)]


def has_check(sentence: Sentence, rules: Iterable[Rule]) -> bool:
    """Whether a rule that contains a sentence has a check."""
    return any(
        rule.check is not None and rule.path == sentence.file and says(rule, sentence)
        for rule in rules
    )


def says(rule: Rule, sentence: Sentence) -> bool:
    """Whether a rule contains a sentence: in its text, as a row, or as the heading above it."""
    wanted = letters(sentence.text)[:60]
    if wanted in letters(f"{rule.lead} {rule.content}"):
        return True
    # hilum writes the names of the columns into a row.
    if rule.is_row and rule.line == sentence.line:
        return True
    return wanted in letters(rule.section.rpartition(" > ")[2])


# --- the recorded model ---------------------------------------------------------------------------


def answer_of(request: str, recorded: Sequence[dict[str, Any]]) -> str:
    """The answer to a request, from the recorded proposals."""
    proposals = []
    for group in json.loads(request.partition("The sentences:\n")[2]):
        for asked in group["sentences"]:
            given = find_recorded(group["above"], asked["sentence"], recorded)
            proposals.append({"id": asked["id"], **given})
    return json.dumps({"proposals": proposals}, ensure_ascii=False)


def find_recorded(above: str, text: str, recorded: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is recorded about a sentence: more certainly its own text than the line above it."""
    found = [each for each in recorded if each["sentence"] in text]
    found = found or [each for each in recorded if each["sentence"] in f"{above} {text}".strip()]
    # The more of a sentence a record names, the more certainly it is about this one.
    best = max(found, key=lambda each: len(each["sentence"]), default=None)
    if best is None:
        return {"advice": "It is a matter of style or judgement."}
    return {name: value for name, value in best.items() if name not in ("repo", "sentence")}


# --- harmless calls -------------------------------------------------------------------------------

SNIPPETS = {
    ".py": ("def add(a: int, b: int) -> int:\n    return a + b\n", "TOTAL = 3\n"),
    ".ts": ("export function add(a: number, b: number): number {\n  return a + b;\n}\n",),
    ".tsx": ("export function Row() {\n  return <p>Row</p>;\n}\n",),
    ".js": ("export const add = (a, b) => a + b\n",),
    ".rs": ("pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",),
    ".go": ("package api\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",),
    ".cs": ("public sealed class Adder\n{\n    public int Add(int a, int b) => a + b;\n}\n",),
    ".java": ("class Adder {\n    int add(int a, int b) {\n        return a + b;\n    }\n}\n",),
    ".kt": ("fun add(a: Int, b: Int): Int = a + b\n",),
    ".swift": ("struct Adder {\n    func add(_ a: Int, _ b: Int) -> Int { a + b }\n}\n",),
    ".php": ("<?php\n\nfunction add(int $a, int $b): int\n{\n    return $a + $b;\n}\n",),
    ".vue": ("<template>\n  <p>Row</p>\n</template>\n",),
    ".css": (".row { display: flex; }\n",),
    ".html": ("<p>Row</p>\n",),
    ".sh": ("set -eu\necho done\n",),
    ".md": ("# Notes\n\nHow the parts work together.\n", "A line about the change.\n"),
    ".json": ('{"size": 3}\n',),
    ".yml": ("size: 3\n",),
    ".yaml": ("size: 3\n",),
    ".toml": ("size = 3\n",),
    ".sql": ("SELECT 1;\n",),
}
"""Ordinary text for new and changed files."""
PLACES = {
    "cargo": ("src/lib.rs", "src/parser.rs", "tests/parse.rs", "crates/core/src/lib.rs"),
    "uv": ("src/app.py", "src/service/jobs.py", "tests/test_jobs.py", "scripts/report.py"),
    "pip": ("src/app.py", "agents/tool.py", "tests/test_app.py"),
    "python": ("src/app.py", "tests/test_app.py"),
    "pnpm": ("src/index.ts", "packages/core/src/list.ts", "packages/core/src/list.test.ts"),
    "npm": ("src/index.ts", "src/ui/Row.tsx", "src/ui/row.css", "tests/row.spec.ts"),
    "yarn": ("src/index.ts", "apps/web/Row.tsx", "packages/lib/list.ts", "tests/list.test.ts"),
    "bun": ("src/index.ts", "src/core/list.ts", "tests/list.test.ts", "web/Row.tsx"),
    "dotnet": ("src/Core/Adder.cs", "src/Core/Feeds/Reader.cs", "tests/Core.Tests/AdderTests.cs"),
    "./gradlew": ("app/src/main/java/Adder.java", "app/src/main/kotlin/Row.kt"),
    "mvn": ("backend/src/main/java/Adder.java", "frontend/src/Row.vue"),
    "go": ("client.go", "internal/pages.go", "client_test.go"),
    "composer": ("app/Models/Item.php", "app/Services/Lists.php", "tests/Feature/ItemTest.php"),
    "php": ("app/Http/Controllers/Items.php", "tests/Unit/ItemTest.php"),
    "xcodebuild": ("Sources/App/Adder.swift", "Tests/AppTests/AdderTests.swift"),
    "flutter": ("lib/src/row.js", "Assets/Scripts/Game/Row.cs"),
}
"""Ordinary files of a project, by the program that its rules file recommends."""
ALWAYS = ("src/util/text.py", "docs/guide.md", "tests/data/sample.json", "README.md")
ADDING = {
    "pnpm": "pnpm install",
    "npm": "npm install",
    "yarn": "yarn install",
    "bun": "bun install",
    "uv": "uv sync",
    "cargo": "cargo fetch",
    "dotnet": "dotnet restore",
    "composer": "composer install",
    "go": "go mod download",
    "pip": "pip install -r requirements.txt",
    "flutter": "flutter pub get",
}
GIT = (
    "git status",
    "git status --short",
    "git diff",
    "git diff --stat",
    "git log --oneline -5",
    "git show HEAD --stat",
    "git branch",
    "git fetch origin",
    "git blame {file}",
    "git add {file}",
    "git diff --cached",
    "git commit -m 'fix(core): keep the order of rows'",
    "git checkout -b fix/row-order",
    "git push -u origin fix/row-order",
    "git stash list",
    "git rev-parse HEAD",
)
SHELL = (
    "ls",
    "ls -la {folder}",
    "cat {file}",
    "head -50 {file}",
    "wc -l {file}",
    "grep -rn 'add' {folder}",
    "rg 'TODO' {folder}",
    "find {folder} -name '*.md'",
    "sed -n 1,20p {file}",
    "mkdir -p {folder}/new",
    "cp {file} /tmp/copy",
    "diff {file} /tmp/copy",
    "echo done",
    "pwd",
    "which python",
    "file {file}",
    "sort {file} | uniq | head",
)
_FENCE = re.compile(r"^[ \t]*```(\w*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_SHELL_FENCES = ("", "bash", "sh", "shell", "zsh", "console")
_STARTS = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\./|\.venv/)?[a-z][\w./+-]*(?: |$)")


def commands_of(text: str) -> list[str]:
    """The commands in the code blocks of a rules file, without comments and placeholders."""
    found = []
    for language, block in _FENCE.findall(text):
        if language not in _SHELL_FENCES:
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            command = re.sub(r"(?:^|\s+)#.*", "", line).strip().removeprefix("$ ")
            command = re.sub(r"<([^<>]+)>", lambda found: re.sub(r"\W", "-", found[1]), command)
            if (
                _STARTS.match(command)
                and is_whole(command)
                and "[ONLY" not in command
                and ": <" not in line
            ):
                found.append(command)
    return list(dict.fromkeys(found))


@cache
def is_whole(command: str) -> bool:
    """Whether a shell would run a line: no first line of a loop, and no code of other languages."""
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0


def programs_of(commands: Iterable[str]) -> list[str]:
    """The programs of recommended commands for which ordinary files are known, most used first."""
    names = [word for command in commands for word in command.split()[:3] if word in PLACES]
    return sorted(set(names), key=lambda name: -names.count(name)) or ["python"]


def calls_of(root: Path, texts: Sequence[str], seed: str) -> list[tuple[str, dict[str, Any]]]:
    """The harmless calls for a repository: the same for the same seed."""
    chance = random.Random(seed)
    recommended = [command for text in texts for command in commands_of(text)]
    programs = programs_of(recommended)
    files = [*ALWAYS, *(place for name in programs for place in PLACES[name])]
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if not (root / name).exists():
            (root / name).write_text(SNIPPETS[Path(name).suffix][0], encoding="utf-8")
    named = [name for text in texts for name in re.findall(r"`([\w./-]+/[\w.-]+)`", text)]
    calls: list[tuple[str, dict[str, Any]]] = [run(command) for command in recommended]
    calls += [run(ADDING[name]) for name in programs if name in ADDING]
    while len(calls) < CALLS:
        file = chance.choice(files)
        other = Path(file).with_stem(f"{Path(file).stem}_{chance.randrange(1000)}").as_posix()
        text = chance.choice(SNIPPETS[Path(file).suffix])
        words = {"file": file, "folder": Path(file).parent.as_posix()}
        old = (root / file).read_text(encoding="utf-8").splitlines()[0]
        edit = {"old_string": old, "new_string": f"{old}\n{text}"}
        calls += [
            ("read_file", {"path": file}),
            ("write_file", {"path": other, "content": text}),
            ("edit_file", {"path": file, **edit}),
            ("search_files", {"pattern": "add", "path": words["folder"]}),
            run(chance.choice(GIT).format(**words)),
            run(chance.choice(SHELL).format(**words)),
        ]
        if named:
            calls.append(("read_file", {"path": chance.choice(named)}))
        if recommended:
            calls.append(run(chance.choice(recommended)))
    return calls


def create_scripts(root: Path, commands: Iterable[str]) -> None:
    """Create the scripts that commands run, which a checkout would contain."""
    for command in commands:
        for name in re.findall(r"(?:^|[\s;&|])(?:bash |sh )?(?:\./)?([\w./-]+\.sh)\b", command):
            path = root / name
            if not path.exists() and ".." not in name and not name.startswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")


def run(command: str) -> tuple[str, dict[str, Any]]:
    """A call that runs a command."""
    return "run_terminal_cmd", {"command": command}


# --- one repository -------------------------------------------------------------------------------


class Session(NamedTuple):
    """What happened in the session of a repository."""

    by_forms: list[Rule]
    signed: list[Rule]
    items: list[Item]
    refusals: list[Refusal]
    requests: list[str]


async def in_session(
    root: Path,
    folder: Path,
    recorded: Sequence[dict[str, Any]],
    calls: Sequence[tuple[str, dict[str, Any]]],
    repo: str,
) -> Session:
    """Load the rules, sign what the recorded model proposes, and judge the calls."""
    asked: list[str] = []

    def answer(request: Any) -> str:
        sent = "".join(part.text for part in request.messages[-1].parts)
        given = answer_of(sent, recorded)
        asked.append(f"{sent}\n\n=== answer\n{given}\n")
        return given

    async with open_bench(
        *PLUGINS,
        model=ScriptedModel([answer] * 100),
        settings={"guard.unsandboxed": "run", "rules.files": NAMED_ONLY},
        workspace=root,
        folder=folder,
        patience=120,
        faults=True,
    ) as kit:
        store = kit.session.plugin(hilum_rules.Rules).store
        # The commands about rules read them, too.
        await trio.to_thread.run_sync(store.touch, list(find_nested_folders(root)))
        by_forms = [rule for _, _, rule in store.snapshot.numbered()]
        items = [
            Item(number, file, rule)
            for number, file, rule in store.snapshot.numbered()
            if needs_decision(rule)
        ]
        agent = kit.session.agents["main"]
        rules = [item.rule for item in items]
        answers = await ask_for_proposals(agent, "scripted/model", rules, root)
        items = await trio.to_thread.run_sync(
            verify_items, items, answers.proposals, answers.rejected, History(), root
        )
        decisions = [
            Decision(item, item.verified.proposal.enforce)
            for item in items
            if item.verified.can_be_signed
        ]
        if decisions:
            await trio.to_thread.run_sync(sign, store, decisions)
        signed = [rule for _, _, rule in store.snapshot.numbered()]
        active = [rule for rule in signed if rule.check is not None]
        tools = kit.session.tools
        refusals = await trio.to_thread.run_sync(judge_all, repo, active, calls, tools, root)
    return Session(by_forms, signed, items, refusals, asked)


def measure(
    source: Path, wanted: Sequence[Sentence], recorded: Sequence[dict[str, Any]], save: Path | None
) -> Found:
    """Measure a repository."""
    paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "workspace")
        shutil.copytree(source, root)
        # Agents seldom work on the main branch.
        subprocess.run(["git", "init", "-q", "-b", "work", str(root)], check=True)
        calls = calls_of(root, texts, f"{SEED} {source.name}")
        create_scripts(root, [arguments.get("command", "") for _, arguments in calls])
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        found = trio.run(in_session, root, Path(folder, "bench"), recorded, calls, source.name)
    if save:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"{source.name}.txt").write_text("\n".join(found.requests), encoding="utf-8")
    verified = [(item.rule, item.verified) for item in found.items]
    rejected = [
        f"{rule.sentence[:100]}: {each.rejected}" for rule, each in verified if each.rejected
    ]
    return Found(
        source.name,
        len(wanted),
        sum(has_check(each, found.by_forms) for each in wanted),
        sum(has_check(each, found.signed) for each in wanted),
        sum(each.can_be_signed for _, each in verified),
        len(calls),
        found.refusals,
        [each for each in wanted if not has_check(each, found.signed)],
        rejected,
        [
            f"{rule.line}: {rule.sentence[:120]} ({rule.why})"
            for rule in found.by_forms
            if rule.check
        ],
    )


def judge_all(
    repo: str,
    rules: Sequence[Rule],
    calls: Sequence[tuple[str, dict[str, Any]]],
    tools: Any,
    root: Path,
) -> list[Refusal]:
    """Judge calls by each rule; gives the refusals. Blocks."""
    refusals = []
    for name, arguments in calls if rules else ():
        text = json.dumps(arguments)
        if checks.judge(rules, text, tools[name], root, Done()) is None:
            continue
        for rule in rules:
            verdict = checks.judge([rule], text, tools[name], root, Done())
            if verdict is not None:
                shown = f"{name} {arguments.get('command') or arguments.get('path')}"
                refusals.append(Refusal(repo, rule.sentence, shown, verdict.reason))
    return list(dict.fromkeys(refusals))


# --- the table ------------------------------------------------------------------------------------


def interval(part: int, whole: int) -> str:
    """A proportion with its 95 % interval (Wilson)."""
    if not whole:
        return "–"
    z, share = 1.96, part / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * ((share * (1 - share) + z * z / (4 * whole)) / whole) ** 0.5
    return f"{part} of {whole}, {share:.0%} ({middle - half:.0%}–{middle + half:.0%})"


def is_right(refusal: Refusal, right: Sequence[dict[str, Any]]) -> bool:
    """Whether a person found a refusal right."""
    return any(
        each["repo"] in refusal.repo
        and each["sentence"] in refusal.sentence
        and each["call"] in refusal.call
        for each in right
    )


def report(found: Sequence[Found], right: Sequence[dict[str, Any]], details: bool) -> int:
    """Print the figures; gives the number of refusals that no person found right."""
    print(f"{'repository':<48}{'enforceable':>12}{'forms':>7}{'all':>6}{'calls':>7}{'refused':>9}")
    for each in found:
        row = (each.enforceable, each.by_forms, each.by_all, each.calls, len(each.refusals))
        print(f"{each.repo[:46]:<48}{row[0]:>12}{row[1]:>7}{row[2]:>6}{row[3]:>7}{row[4]:>9}")
        if details:
            print("".join(f"    form  {text}\n" for text in each.by_form_texts), end="")
            print(
                "".join(f"    miss  {one.line}: {one.text[:110]}\n" for one in each.missed), end=""
            )
            print("".join(f"    rejected  {text[:260]}\n" for text in each.rejected), end="")
    whole = sum(each.enforceable for each in found)
    print(f"\n{len(found)} repositories; {sum(each.signed for each in found)} proposals signed")
    print(f"by the forms alone:        {interval(sum(each.by_forms for each in found), whole)}")
    print(f"by forms or proposals:     {interval(sum(each.by_all for each in found), whole)}")
    refusals = [refusal for each in found for refusal in each.refusals]
    open_ones = [refusal for refusal in refusals if not is_right(refusal, right)]
    calls = sum(each.calls for each in found)
    print(
        f"harmless calls: {calls}; refused: {len(refusals)}, found right: {len(refusals) - len(open_ones)}"
    )
    for refusal in open_ones:
        print(f"  {refusal.repo}: {refusal.call[:110]}\n      {refusal.reason[:420]}")
    return len(open_ones)


def main(folder: Path, only: str, details: bool, save: bool) -> int:
    """Measure all repositories."""
    wanted = enforceable(folder)
    recorded = read_lines(folder / "answers.jsonl")
    found = []
    for source in sorted((folder / "files").iterdir()):
        if only not in source.name:
            continue
        mine = [each for each in wanted if each.repo == source.name]
        answers = [each for each in recorded if each["repo"] == source.name]
        place = folder / "requests" if save else None
        found.append(measure(source, mine, answers, place))
    return report(found, read_lines(folder / "rightly.jsonl"), details)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", default="", help="only repositories with this text in their names"
    )
    parser.add_argument("--details", action="store_true", help="print what is missed and rejected")
    parser.add_argument("--save", action="store_true", help="store the requests and answers")
    given = parser.parse_args()
    sys.exit(min(main(given.folder, given.only, given.details, given.save), 1))
