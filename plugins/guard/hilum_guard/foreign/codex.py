"""Read the permissions of Codex (``config.toml`` and ``rules/*.rules``)."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.rule_list import WITHOUT_CHANGES, Entry, RuleList
from hilum_guard.rules.tool_names import Effect

# Also the words that people write by mistake, as long as they can mean only one thing.
_DECISIONS: Mapping[str, Effect] = {
    **dict.fromkeys(("allow", "allowed"), "allow"),
    **dict.fromkeys(("prompt", "ask"), "ask"),
    **dict.fromkeys(("forbidden", "forbid", "deny", "denied"), "deny"),
}
_OWN_SANDBOX = "hilum has its own sandbox, which always applies; see the settings guard.*"
_NO_NETWORK = "the sandbox has no network; set guard.network in your own settings"
_WRITABLE = "it restricts nothing; set guard.writable in your own settings for other folders"
_DENIED = ("deny", "none")
_ROOTS = (":workspace_roots", ":project_roots", ":cwd")
MAX_COMMANDS = 64
"""Maximum number of commands that the alternatives in one rule stand for."""


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a configuration file of Codex."""
    if loaded.data.get("sandbox_mode") == "read-only":
        line = loaded.find_line(("sandbox_mode",))
        reason = "Codex changes nothing (sandbox_mode), hilum does"
        rules.skip_restriction(f"{reason}: {WITHOUT_CHANGES}.", line)
    name = loaded.data.get("default_permissions")
    profiles = loaded.data.get("permissions")
    if not isinstance(name, str) or not isinstance(profiles, dict):
        return
    profile = profiles.get(name)
    if isinstance(profile, dict):
        _read_profile(profile, ("permissions", name), loaded, rules)
        _list_unused(profile, ("permissions", name), loaded, rules)


def _list_unused(
    profile: Mapping[str, Any], keys: tuple[str, ...], loaded: LoadedFile, rules: RuleList
) -> None:
    """Name the keys of a profile that restrict nothing, for `hilum import`."""
    unused: dict[tuple[str, ...], str] = {}
    for key in profile.keys() - {"filesystem", "network"}:
        unused[key,] = _OWN_SANDBOX
    network = profile.get("network")
    for key, value in network.items() if isinstance(network, dict) else ():
        if key != "domains" and not (key == "enabled" and value is False):
            unused["network", key] = _NO_NETWORK
    files = profile.get("filesystem")
    for path, access in files.items() if isinstance(files, dict) else ():
        given = access.values() if isinstance(access, dict) else [access]
        if "write" in given:
            unused["filesystem", path] = _WRITABLE
    for path, reason in unused.items():
        line = loaded.find_line((*keys, *path))
        rules.left.append(f"{'.'.join((*keys, *path))} (line {line}): {reason}")


def _read_profile(
    profile: Mapping[str, Any], keys: tuple[str, ...], loaded: LoadedFile, rules: RuleList
) -> None:
    files = profile.get("filesystem")
    if isinstance(files, dict):
        _read_root(files, (*keys, "filesystem"), loaded, rules)
        for path, access in _list_paths(files):
            if access in _DENIED:
                line = rules.find_line(path, loaded.find_line((*keys, "filesystem")))
                written = f"{path} = {access}"
                rules.add(Entry("deny", "read", path, written, line))
                rules.add(Entry("deny", "edit", path, written, line))
            elif access == "read" and path not in (".", "/", "./"):
                line = rules.find_line(path, loaded.find_line((*keys, "filesystem")))
                rules.add(Entry("deny", "edit", path, f"{path} = read", line))
    network = profile.get("network")
    if isinstance(network, dict) and network.get("enabled") is False:
        line = loaded.find_line((*keys, "network", "enabled"))
        written = "network.enabled = false"
        rules.add(Entry("deny", "tool", None, written, line, "network"))
    domains = network.get("domains") if isinstance(network, dict) else None
    for host, access in domains.items() if isinstance(domains, dict) else ():
        if access in _DENIED:
            line = rules.find_line(host, loaded.find_line((*keys, "network")))
            rules.add(Entry("deny", "fetch", host, f"{host} = {access}", line))


def _read_root(
    files: Mapping[str, Any], keys: tuple[str, ...], loaded: LoadedFile, rules: RuleList
) -> None:
    """Add what the access to all files denies in the workspace."""
    access = files.get(":root")
    if access != "read" and access not in _DENIED:
        return
    given = dict(_list_paths(files))
    of_workspace = [files.get(root) for root in _ROOTS]
    of_workspace += [given.get(path) for path in (".", "./", "./.")]
    line = loaded.find_line((*keys, ":root"))
    written = f'":root" = {access}'
    if "write" not in of_workspace:
        rules.add(Entry("deny", "edit", None, written, line), _list_given(given, ("write",)))
    if access in _DENIED and not {"read", "write"}.intersection(filter(_is_text, of_workspace)):
        readable = _list_given(given, ("read", "write"))
        rules.add(Entry("deny", "read", None, written, line), readable)


def _list_given(given: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Return patterns for the paths with one of the given accesses, and for what is in them."""
    paths = [path for path, word in given.items() if word in words]
    return [pattern for path in paths for pattern in (path, f"{path}/**")]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _list_paths(files: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths of a profile, each with its access."""
    for path, access in files.items():
        if isinstance(access, dict) and path in _ROOTS:
            for inner, word in access.items():
                if isinstance(word, str):
                    yield inner if inner.startswith(("/", "~")) else f"./{inner}", word
        elif isinstance(access, str) and not path.startswith(":"):
            yield (f"/{path}" if path.startswith("/") else path), access


# --- rule files -----------------------------------------------------------------------------------


def read_rules(text: str, rules: RuleList) -> None:
    """Add the rules of a file in the language Starlark, of which only plain calls are read.

    Args:
        text: The content of the file.
        rules: The list to add them to.
    """
    try:
        # The syntax of Starlark is a subset of that of Python. Nothing is executed.
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        if "forbidden" in text or "prompt" in text:
            rules.doubt("It is not a list of rules.", line)
        else:
            rules.problem("It is not a list of rules.", line)
        return
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Constant):  # a docstring
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            _read_call(call, call.func.id, rules)
        else:
            rules.doubt("hilum reads only calls of prefix_rule.", node.lineno)


def _read_call(call: ast.Call, name: str, rules: RuleList) -> None:
    line = call.lineno
    if name == "host_executable":
        return  # it only says where a program is
    try:
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        rules.doubt(f"An argument of {name} is not a plain value.", line)
        return
    decision = str(given.get("decision", "allow"))
    if name == "network_rule":
        _read_network_rule(given, decision, line, rules)
        return
    if name != "prefix_rule":
        rules.doubt(f"hilum does not know {name}.", line)
        return
    effect = _DECISIONS.get(decision)
    if effect is None:
        rules.problem(f"decision {decision!r} is unknown; the rule denies.", line)
        effect = "deny"
    commands = list(_list_commands(given.get("pattern")))
    if not commands:
        if effect != "allow":
            rules.doubt(f"pattern is {kind_of(given.get('pattern'))}; a list is expected.", line)
        return
    for words in commands:
        shown = " ".join(words)
        rules.add(Entry(effect, "shell", f"{shown} *", f"{decision} {shown}", line))


def _read_network_rule(given: Mapping[str, Any], decision: str, line: int, rules: RuleList) -> None:
    host = given.get("host")
    if decision in ("deny", "forbidden", "prompt") and isinstance(host, str):
        effect: Effect = "ask" if decision == "prompt" else "deny"
        rules.add(Entry(effect, "fetch", host, f"{decision} {host}", line))


def _list_commands(pattern: object) -> Iterator[tuple[str, ...]]:
    """Yield the commands that a pattern with alternatives stands for."""
    if not isinstance(pattern, list):
        return
    choices = [each if isinstance(each, list) else [each] for each in pattern]
    if not choices or not all(isinstance(word, str) for words in choices for word in words):
        return
    yield from itertools.islice(itertools.product(*choices), MAX_COMMANDS)
