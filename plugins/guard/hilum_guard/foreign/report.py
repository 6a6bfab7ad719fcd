"""Report the permissions of other agents for ``hilum import``, with the rules to take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hilum import config_folder
from hilum.foreign_files import ForeignFile, Offer

from hilum_guard.foreign.files import AGENTS
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.foreign.rule_list import AllowedRule, RuleList, is_valid
from hilum_guard.rules import rule_files
from hilum_guard.rules.matching import Rule, parse
from hilum_guard.rules.patterns import pattern_words
from hilum_guard.rules.permissions_command import denials_from
from hilum_guard.rules.tool_names import STANDARD

# An approval of such a program is an approval of everything that it can be told to do.
_RUNNERS = frozenset(
    """bash sh zsh fish dash ksh pwsh powershell cmd eval exec source python python3 node deno bun
    ruby perl php lua npx bunx uvx pipx tsx ts-node env xargs find sudo su doas ssh scp rsync docker
    podman kubectl helm terraform ansible aws gcloud az awk sed tee nohup timeout watch
    parallel osascript gdb nc ncat socat curl wget http""".split()
)
_DESTRUCTIVE = frozenset(
    "rm rmdir shred dd mkfs mv chmod chown kill killall pkill truncate unlink".split()
)
_WIDE = frozenset(
    "make just git gh npm pnpm yarn pip pip3 uv cargo go gem composer brew apt apt-get".split()
)
_GRAVE = tuple(
    tuple(words.split())
    for words in (
        "git push,git reset,git clean,git restore,git checkout,git rm,git config,git rebase,"
        "npm publish,npm exec,npm install,pnpm exec,pnpm dlx,pnpm publish,yarn dlx,uv run,uv pip,"
        "uv tool,poetry run,pipenv run,pip install,pip3 install,go run,go install,cargo run,"
        "cargo install,cargo publish,gem push,gh api,gh repo,gh pr merge,gh release,gh secret"
    ).split(",")
)


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the files with permissions of other agents. Blocks.

    Args:
        folder: The workspace.
    """
    applied = denials_from(folder)
    own = rule_files.load(config_folder(), folder)
    known = {rule.text for rule in own.of("allow")}
    for rules in load_foreign_rules(folder, tuple(AGENTS)):
        file = _describe(rules, folder, applied, known)
        # Such a file often has settings for something else.
        if file.works or file.offers or file.left or file.problems:
            yield file


def _describe(
    rules: RuleList, folder: Path, applied: tuple[str, ...], known: set[str]
) -> ForeignFile:
    place = rules.place
    works = []
    left = list(rules.left)
    entries = {(rule.source, rule.written, rule.effect): rule for rule in rules.rules}
    counts = Counter(rule.effect for rule in entries.values())
    is_applied = place.agent in [AGENTS[key] for key in applied]
    for effect in ("deny", "ask"):
        number = counts[effect]
        if number and is_applied:
            works.append(f"{number} {effect} rule{'s apply' if number > 1 else ' applies'}")
        elif number:
            left.append(f"{number} {effect} rules: the setting guard.denials_from excludes them")
    offers = []
    taken = 0
    for allowed in rules.allowed:
        valid = tuple(rule for rule in allowed.rules if is_valid(rule))
        if not valid:
            left.append(
                f"{allowed.written} (line {allowed.line}): hilum has no rule that allows just this"
            )
        elif known.issuperset(valid):
            taken += 1
        else:
            offers.append(_make_offer(allowed, valid, folder))
    if taken:
        works.append(
            f"{taken} allow rule{'s are' if taken > 1 else ' is'} in your permissions.toml"
        )
    return ForeignFile(
        place.path,
        place.agent,
        "permissions",
        user=place.user,
        works=tuple(works),
        offers=tuple(offers),
        left=tuple(left),
        problems=tuple(rules.problems),
    )


def _make_offer(allowed: AllowedRule, valid: tuple[str, ...], folder: Path) -> Offer:
    dangers = [danger for danger in map(_find_danger, valid) if danger]
    return Offer(
        allowed.written,
        ", ".join(f"allow {rule}" for rule in valid),
        partial(_take, valid, folder),
        dangers[0] if dangers else "",
        allowed.line,
    )


def _take(rules: tuple[str, ...], folder: Path, user: bool) -> str:
    """Store rules that allow, for one folder or for all; return where."""
    config = config_folder()
    for rule in rules:
        rule_files.add(config, None if user else folder, "allow", rule)
    return str(rule_files.user_file(config))


def _find_danger(text: str) -> str:
    """Return why a rule must be accepted alone; empty if it may be accepted with others."""
    rule = parse(text, "allow")
    category = STANDARD.get(rule.tool, rule.tool)
    if rule.tool == "run_terminal_cmd" and not rule.about_all:
        return _find_command_danger(rule)
    if rule.tool in ("*", "*__*") or "*" in rule.tool:
        return "it allows many tools without a question"
    if rule.about_all and category in ("execute", "network", "write"):
        return f"it allows every call of {rule.tool}"
    if category == "write" and (rule.pattern or "").strip("/") in ("**", "*"):
        return "it allows changing every file"
    if "__" in rule.tool:
        return "the tool of a server can do anything"
    return ""


def _find_command_danger(rule: Rule) -> str:
    words = pattern_words(rule.pattern or "")
    program = words[0].rpartition("/")[2] if words else "*"
    if "*" in program:
        return "it allows many programs"
    if program in _RUNNERS:
        return f"{program} can run or send anything"
    if program in _DESTRUCTIVE:
        return f"{program} can destroy data"
    if program in _WIDE and (len(words) < 2 or words[1] == "*"):
        return f"it allows every sub-command of {program}"
    for grave in _GRAVE:
        if tuple(words[: len(grave)]) == grave:
            return f"{' '.join(grave)} runs other code, changes what others see, or discards work"
    return ""
