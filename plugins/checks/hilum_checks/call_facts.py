"""Determine what a call does, as far as its arguments show: its paths, commands and hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import attrs
import msgspec
from hilum_guard import (
    UNKNOWN,
    FileAccess,
    find_git_top,
    git_words,
    is_new_file,
    judge_command,
    read_effects,
    search,
)

from hilum_checks import code_texts, git_comparisons, host_matcher, variables
from hilum_checks.activation import list_activations
from hilum_checks.command_facts import CommandFacts
from hilum_checks.git_folders import find_folder
from hilum_checks.git_references import read_added_tree
from hilum_checks.path_matcher import PathMatcher

if TYPE_CHECKING:
    from hilum import Tool
    from hilum_guard import CommandEffects, CommandVerdict, Findings, SimpleCommand

MAX_PATH = 4096
"""Maximum length of an argument that is treated as a path."""
_COMMANDS = frozenset("command cmd commands script shell_command command_line bash shell".split())
# Arguments of hilum's own tools whose text is sent to a program and may be a command.
_INPUTS = frozenset(("text", "input"))
_FOLDERS = ("working_directory", "cwd", "workdir", "directory")
_PATHS = re.compile(
    r"(?:^|_)(?:paths?|files?|file_?names?|dir|dirs|director(?:y|ies)|folders?|src|dst|dest"
    r"|sources?|destinations?|targets?|uris?|output|out|outfile|infile|root|cwd|glob|patterns?"
    r"|location)(?:$|_)"
)
_HOSTS = re.compile(
    r"(?:^|_)(?:urls?|uris?|hosts?|hostnames?|domains?|endpoints?|servers?|sites?|address|link"
    r"|origin|website)(?:$|_)"
)
_TEXTS = frozenset(
    "content old_string new_string edits text message body query prompt description pattern".split()
)
_READERS = re.compile(
    r"^(?:.*__)?(?:read|get|list|search|find|view|show|stat|describe|fetch|cat|open|grep|glob"
    r"|look|inspect|query)(?:_|$|[A-Z])"
)
_DELETERS = re.compile(r"delete|remove|unlink|trash|erase", re.IGNORECASE)
_MOVERS = re.compile(r"move|rename", re.IGNORECASE)
# Tools that return names but no file contents.
_LISTERS = frozenset(("list_directory", "glob_search"))


@attrs.define(slots=False)
class CallFacts:
    """The call being judged.

    Attributes:
        tool: The tool.
        arguments: The arguments of the call, as plain data.
        matcher: The matcher for paths in the workspace.
    """

    tool: Tool
    arguments: dict[str, Any]
    matcher: PathMatcher

    @classmethod
    def parse(cls, tool: Tool, text: str, root: Path) -> CallFacts:
        """Parse the arguments of a call; a call with malformed arguments does not run."""
        try:
            arguments = msgspec.json.decode(text or "{}")
        except msgspec.DecodeError:
            arguments = None
        is_object = isinstance(arguments, dict)
        return cls(tool, arguments if is_object else {}, PathMatcher(root))

    @property
    def _is_own(self) -> bool:
        """Whether the tool belongs to hilum; MCP servers describe the arguments of other tools."""
        return self.tool.schema is None

    @cached_property
    def strings(self) -> list[tuple[str, str]]:
        """The strings in the arguments, each with the last part of its key."""
        return [(key.rpartition(".")[2], text) for key, text in _find_strings(self.arguments)]

    # --- commands ---------------------------------------------------------------------------------

    @cached_property
    def command_texts(self) -> list[str]:
        """The command lines of the call."""
        if self.tool.risk != "execute":
            return []
        # In other tools, an argument ``text`` or ``input`` need not be a command.
        names = _COMMANDS | _INPUTS if self._is_own else _COMMANDS
        return [text for name, text in self.strings if name.lower() in names]

    @cached_property
    def _verdicts(self) -> list[CommandVerdict]:
        """The command lines of the call, parsed by the guard."""
        folder = self._find_folder()
        return [
            judge_command(text, workspace=self.matcher.root, folder=folder)
            for text in self.command_texts
        ]

    def _find_folder(self) -> Path:
        for key in _FOLDERS:
            folder = self.arguments.get(key)
            if isinstance(folder, str) and folder:
                return self.matcher.root / folder
        return self.matcher.root

    @cached_property
    def activations(self) -> frozenset[str]:
        """The texts of the commands that only activate an environment or a version manager."""
        return frozenset(list_activations(self._all_commands, self.matcher.root))

    @cached_property
    def _all_commands(self) -> list[CommandFacts]:
        return self._list_commands(recipe=False)

    @cached_property
    def commands(self) -> list[CommandFacts]:
        """The simple commands of the call, including those of the scripts that it runs.

        Recipes of `make` and similar programs are left out, because only these programs can resolve
        the variables in them. In the project's own scripts, a command whose program is known only
        at run time is left out (`exec "$JAVACMD" "$@"`): the user has written or read it. So are
        the commands of a script that only activates a virtual environment.
        """
        commands = [
            each
            for each in self._all_commands
            if not each.command.runners or " ".join(each.command.runners[0]) not in self.activations
        ]
        if not any(map(_is_unknown, commands)):
            return commands
        own, new = self._list_scripts(commands)
        return [
            each
            for each in commands
            if not _is_unknown(each)
            or own.isdisjoint(each.command.runners)
            or not new.isdisjoint(each.command.runners)
        ]

    def _list_scripts(
        self, commands: Sequence[CommandFacts]
    ) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
        """Return the words of the commands that run the project's own shell scripts, and others.

        A call that sets variables may choose what such a script runs.
        """
        own: set[tuple[str, ...]] = set()
        new: set[tuple[str, ...]] = set()
        is_steered = any(map(variables.may_steer, self.command_texts))
        written = {
            os.path.basename(access.path)
            for command in commands
            for access in command.effects.files
            if access.kind not in ("read", "any")
        }
        for command in commands:
            script = command.effects.script
            if script is None or not (script.shell or script.position == 0):
                continue
            path = os.path.join(command.cwd or "/", os.path.expanduser(script.path))
            is_own = os.path.isfile(path) and not self.runs_new_script(command)
            is_kept = not is_steered and os.path.basename(path) not in written
            is_plain = is_kept and not self._passes_unknown(command)
            (own if is_own and is_plain else new).add(command.words)
        return own, new

    def _passes_unknown(self, command: CommandFacts) -> bool:
        """Return whether a command gives a script words or input that it may run as commands."""
        if any(UNKNOWN in word for word in command.words):
            return True
        piped = rf"(?<!\|)\|(?!\|)[^;&\n]*{re.escape(command.source)}"
        has_input = command.command.stdin is not None or bool(command.command.reads)
        return has_input or any(re.search(piped, text) for text in self.command_texts)

    @cached_property
    def recipes(self) -> list[CommandFacts]:
        """The commands in the recipes and npm scripts of the project that the call runs.

        A command whose program is known only at run time is left out.
        """
        commands = self._list_commands(recipe=True)
        return [each for each in commands if each.words and UNKNOWN not in each.words[0]]

    def _list_commands(self, *, recipe: bool) -> list[CommandFacts]:
        commands: list[CommandFacts] = []
        previous = None
        for verdict in self._verdicts:
            for command in verdict.all_commands:
                if command.recipe == recipe:
                    effects = read_effects(command)
                    if command.elsewhere:
                        effects = _place_files(effects, str(self.matcher.root))
                    previous = CommandFacts(command, effects, previous)
                    commands.append(previous)
                    inner = _find_local_program(command)
                    if inner is not None:
                        previous = CommandFacts(inner, read_effects(inner), previous)
                        commands.append(previous)
        return commands

    @cached_property
    def unknown_command(self) -> str:
        """Why some effects of the call are known only at run time; empty if none are."""
        # A part that the guard could not parse may do anything, so rules about paths and commands
        # require approval.
        if not all(verdict.complete for verdict in self._verdicts):
            return "the command cannot be parsed completely"
        return next(self._find_unknown(), "")

    def _find_unknown(self, *, downloads: bool = True) -> Iterator[str]:
        """Yield which commands run something that is known only at run time."""
        for command in self.commands:
            is_unknown = command.words == (UNKNOWN,)
            if is_unknown and not downloads and _runs_download(command):
                continue
            if is_unknown or self._runs_unknown_script(command):
                yield command.doubt

    def _runs_unknown_script(self, command: CommandFacts) -> bool:
        """Return whether a shell runs a script that no one has read.

        A script in a container or on another machine is not known here, unless it is one of the
        workspace, which an agent may have written.
        """
        if not command.command.elsewhere:
            is_unknown = code_texts.runs_unknown_script(command.effects, command.cwd)
            return is_unknown and not self._writes_script_of(command)
        script = command.effects.script
        if script is None or not (script.shell or script.path.endswith((".sh", ".bash"))):
            return False
        parts = script.path.split("/")
        paths = [
            os.path.join(self.matcher.real_root, *filter(None, parts[start:]))
            for start in range(len(parts))
        ]
        is_new = any(
            os.path.isfile(path) and is_new_file(path, self.matcher.real_root) for path in paths
        )
        return UNKNOWN in script.path or is_new

    def _writes_script_of(self, command: CommandFacts) -> bool:
        """Return whether the call itself writes the script that a command runs.

        The commands of such a script are among those of the call. If something else may change the
        script, the guard adds an unknown command, or `. FILE` for a file that is copied to it.
        """
        inner = [each for each in self.commands if each.command.runners[:1] == (command.words,)]
        return bool(inner) and all(each.words[:1] not in ((".",), ("source",)) for each in inner)

    @cached_property
    def unknown_text(self) -> str:
        """Why the call may write text that it does not show; empty if it does not.

        An installer from the network (``curl https://… | sh``) may do anything to files and run
        any command, but it contains no text of the agent, so that rules about text let it pass.
        """
        if not self.unknown_command:
            return ""
        if not all(verdict.complete for verdict in self._verdicts):
            return self.unknown_command
        return next(self._find_unknown(downloads=False), "")

    @cached_property
    def written_code(self) -> str:
        """What the call may write to a script: its words and inputs that may be code."""
        texts = [word for command in self.commands for word in command.words]
        texts += [command.command.stdin or "" for command in self.commands]
        return "\n".join(text for text in texts if re.search(r"[\s(;'\"]", text))

    @cached_property
    def _written_paths(self) -> set[str]:
        return {access.path for access in self.accesses if access.kind == "write"}

    def writes_file(self, path: str) -> bool:
        """Return whether the call may write a file with the name of a path, in any folder.

        Args:
            path: The path, of which only the name is compared: paths begin in different folders.
        """
        name = os.path.basename(path)
        return any(
            os.path.basename(access.path) in (name, "") or UNKNOWN in access.path
            for access in self.accesses
            if access.kind not in ("read", "any")
        )

    def texts_of(self, command: CommandFacts) -> list[str]:
        """Return the texts that a command may run as code, also in a script that the call writes."""
        script = command.effects.script
        if script is not None and not script.shell and script.path in self._written_paths:
            return [*command.texts, self.written_code]
        return command.texts

    def runs_new_script(self, command: CommandFacts) -> bool:
        """Return whether a command runs a script that is not the project's own."""
        script = command.effects.script
        if script is None or UNKNOWN in script.path:
            return False
        path = os.path.join(command.cwd or "/", os.path.expanduser(script.path))
        twin = self.matcher.find_twin(path)
        # Git writes the project's scripts anew when it adds a working tree.
        if twin and code_texts.read_text(path) == code_texts.read_text(twin):
            path = twin
        return is_new_file(path, self.matcher.real_root)

    # --- paths ------------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> list[FileAccess]:
        """The accesses to files that the call names."""
        named = [access for access, findings in self._command_accesses if findings is None]
        named += list(self.accesses_by_links(named))
        # The command of one of hilum's own tools shows what is accessed; another tool may also use
        # paths in its other arguments.
        if not self._verdicts or not self._is_own:
            named += self._argument_accesses()
        # Commands often repeat an access, and each one is compared with each rule.
        return list(dict.fromkeys(named))

    @cached_property
    def _links(self) -> dict[str, str]:
        """The links that the call makes, with their targets.

        A working tree that the call adds or moves counts as a link to the one that exists.
        """
        links: dict[str, str] = {}
        for command in self.commands:
            if command.effects.program == "git":
                links.update(self._find_added_tree(command))
            links.update(self._find_moved_tree(command))
            if command.effects.program in ("ln", "gln") and len(command.words) > 2:
                target, name = command.words[-2:]
                path = os.path.normpath(os.path.join(command.cwd or "/", name))
                # A link in a folder has the name of its target.
                if os.path.isdir(path) and not os.path.islink(path):
                    path = os.path.join(path, os.path.basename(target))
                base = os.path.dirname(path) if "s" in _letters(command.words) else command.cwd
                links[path] = os.path.join(base or "/", target)
        return links

    @cached_property
    def enters_linked_tree(self) -> bool:
        """Whether a command may run in another working tree of the repository."""
        folders = {cwd for command in self.commands for cwd in command.cwds if cwd}
        if any(self.matcher.find_twin(folder) for folder in folders):
            return True
        return any(
            f"{folder}/".startswith(f"{link}/") for folder in folders for link in self._links
        )

    def _find_added_tree(self, command: CommandFacts) -> Iterator[tuple[str, str]]:
        """Yield the working tree that a command adds, with another one of the same repository."""
        added = read_added_tree(git_words(command.words))
        if added is None or not added.linked:
            return
        folder = find_folder(command)
        path = os.path.join(folder, os.path.expanduser(added.path))
        top = find_git_top(self.matcher.real_root if UNKNOWN in folder else folder)
        if UNKNOWN not in path and top is not None:
            yield os.path.normpath(path), top

    def _find_moved_tree(self, command: CommandFacts) -> Iterator[tuple[str, str]]:
        """Yield the path to which a command moves or copies a linked working tree."""
        is_move = command.effects.program in ("mv", "cp", "rsync")
        is_move |= git_words(command.words)[1:3] == ("worktree", "move") if command.words else False
        if not is_move or len(command.words) < 3:
            return
        folder = find_folder(command)
        source, target = (
            os.path.normpath(os.path.join(folder, os.path.expanduser(word)))
            for word in command.words[-2:]
        )
        top = self.matcher.find_twin(source)
        if top and UNKNOWN not in target:
            yield target, top
            yield os.path.join(target, os.path.basename(source)), top

    def accesses_by_links(self, named: Iterable[FileAccess]) -> Iterator[FileAccess]:
        """Yield the accesses through links that an earlier command of the call makes."""
        for access in named if self._links else ():
            for cwd in access.cwds:
                path = os.path.normpath(os.path.join(cwd or "/", access.path))
                for link, target in self._links.items():
                    # The command that makes the link writes it, too.
                    is_link = path == link and access.kind != "link" and access.existing
                    if is_link or path.startswith(f"{link}/"):
                        yield attrs.evolve(
                            access, path=os.path.normpath(target + path[len(link) :])
                        )

    @cached_property
    def found_files(self) -> list[tuple[FileAccess, Findings]]:
        """The accesses to files that a search in the call finds, each with the search's results."""
        return [
            (access, findings)
            for access, findings in self._command_accesses
            if findings is not None
        ]

    @cached_property
    def _command_accesses(self) -> list[tuple[FileAccess, Findings | None]]:
        accesses: list[tuple[FileAccess, Findings | None]] = []
        answers: dict[Any, Findings | None] = {}
        is_settled = True
        for command in self.commands:
            effects = command.effects
            # A search may find what an earlier command creates.
            is_settled = is_settled and (bool(effects.found) or _creates_nothing(effects))
            if not effects.found:
                shown = _without_hidden(command, self.commands)
                if self._may_change_lists:
                    shown = [
                        attrs.evolve(each, left_out=()) if each.generated else each
                        for each in shown
                    ]
                accesses += [(access, None) for access in shown]
            for found in effects.found:
                # Each search runs only once, because commands often repeat a search, which reads
                # the disk.
                if is_settled and found.query not in answers:
                    answers[found.query] = search(found.query)
                findings = answers.get(found.query)
                files = found.otherwise if findings is None else found.files
                accesses += _accesses_of_search(effects, files, findings)
        return accesses

    @property
    def _may_change_lists(self) -> bool:
        """Whether the call names a list of files that formatters leave out, and may change it."""
        return any(
            ".pretti" in word and before != "--ignore-path" and "=" not in word
            for command in self.commands
            for before, word in pairwise(("", *command.words))
        )

    def _argument_accesses(self) -> Iterator[FileAccess]:
        for name, text in self.strings:
            # hilum's tools declare which arguments name files to write; for other tools, only the
            # argument names indicate paths.
            is_path = name in self.tool.writes or _PATHS.search(_snake_case(name))
            if is_path and name not in _TEXTS and 0 < len(text) <= MAX_PATH:
                path = _local_path(text)
                if path:
                    yield from self._accesses_of(path)

    def _accesses_of(self, path: str) -> Iterator[FileAccess]:
        name = self.tool.name
        access = FileAccess("write", path, cwds=(str(self.matcher.root),))
        if self.tool.risk == "read" or (not self._is_own and _READERS.match(name)):
            if name not in _LISTERS:
                yield attrs.evolve(access, kind="read")
        # An MCP server does not state what its tools do to files, so the tool's name decides.
        # Without a hint in the name, the tool may write and read, which is the strictest
        # assumption.
        elif _DELETERS.search(name):
            yield attrs.evolve(access, kind="delete", deep="all")
        elif _MOVERS.search(name):
            yield attrs.evolve(access, kind="delete", deep="all", moved=True)
            yield access
        else:
            yield access
            if not self._is_own:
                yield attrs.evolve(access, kind="read")

    # --- hosts ------------------------------------------------------------------------------------

    @cached_property
    def hosts(self) -> set[str]:
        """The hosts in the arguments of a tool that uses the network."""
        hosts: set[str] = set()
        if self.tool.risk == "read" and self._is_own:
            return hosts
        for name, text in self.strings:
            plain = _snake_case(name)
            is_host = _HOSTS.search(plain) is not None
            if plain not in _TEXTS and (is_host or self.tool.risk == "network"):
                hosts |= host_matcher.find_hosts(text)
            if is_host:
                hosts.add(host_matcher.parse_host(text))
        return hosts - {""}


def _is_unknown(command: CommandFacts) -> bool:
    """Return whether the program of a command is known only at run time."""
    return bool(command.words) and UNKNOWN in command.words[0]


# Programs of a project that `pnpm` and its like start without `exec`: `pnpm vite` is `vite`.
_STARTS_LOCAL = frozenset("pnpm yarn bun".split())
_VALUED = frozenset("-C --dir -F --filter --cwd workspace".split())
_LOCAL_PROGRAMS = frozenset(
    """
    astro biome changeset cypress drizzle-kit esbuild eslint gatsby husky jest lerna lint-staged mocha ng
    next nuxt nx parcel playwright prettier prisma react-scripts release-it remix rollup
    semantic-release storybook svelte-kit ts-node tsc tsx turbo vercel vinxi vite vitest
    vue-cli-service webpack webpack-dev-server wrangler
    """.split()
)


def _find_local_program(command: SimpleCommand) -> SimpleCommand | None:
    """Return the program of the project that `pnpm NAME` starts; ``None`` if it starts none."""
    words = command.words
    at = 1
    while at < len(words) and (words[at].startswith("-") or words[at] == "workspace"):
        at += 2 if words[at] in _VALUED else 1
    if command.program not in _STARTS_LOCAL or at >= len(words) or words[at] not in _LOCAL_PROGRAMS:
        return None
    return attrs.evolve(command, words=words[at:], runners=(words, *command.runners))


_DOWNLOADERS = frozenset(("curl", "wget"))
_REMOTE = re.compile(
    r"https://(?!localhost|127\.|0\.|\[|10\.|192\.168\.|169\.254\.)[\w.-]+\.[a-z]+/"
)


def _runs_download(command: CommandFacts) -> bool:
    """Return whether a shell runs unknown text that a program certainly downloads for it."""
    shell = command.previous
    source = shell.previous if shell else None
    if shell is None or source is None or source.effects.program not in _DOWNLOADERS:
        return False
    # What a file, a here-document or an option names would be run instead of the pipe.
    is_plain = shell.command.stdin is None and not shell.command.reads
    if not is_plain or not set(shell.words[1:]) <= {"-s", "-", "--", "-e", "-x"}:
        return False
    addresses = [word for word in source.words[1:] if "://" in word or UNKNOWN in word]
    return len(addresses) == 1 and _REMOTE.match(addresses[0]) is not None


def _without_hidden(command: CommandFacts, commands: Sequence[CommandFacts]) -> list[FileAccess]:
    """Return a command's accesses, except those to stored files that it does not show.

    Args:
        command: The command.
        commands: All commands of the call.
    """
    files = list(command.effects.files)
    if not any(access.stored for access in files):
        return files
    if git_comparisons.searches_files(command):
        return [attrs.evolve(access, stored=False) for access in files]
    if git_comparisons.compares_files(command):
        return [access for access in files if not access.stored]
    compared = git_comparisons.find_compared(command, commands)
    if compared:
        files = [
            attrs.evolve(access, compared=compared) if access.stored else access for access in files
        ]
        return files
    patterns = [
        access.path for access in files if access.stored and re.search(r"[*?\[]", access.path)
    ]
    # Of the folder in which a pathspec begins, Git shows only the files that the pathspec matches.
    starts = {re.split(r"[*?\[]", pattern)[0].rpartition("/")[0] or "." for pattern in patterns}
    return [
        access
        for access in files
        if not (access.stored and not access.certain and access.path in starts)
    ]


def _place_files(effects: CommandEffects, folder: str) -> CommandEffects:
    """Return effects in a container or on another machine whose unknown folder is a given one.

    A word such as `routes` in `ssh HOST flask routes` is not a file in each folder of the
    workspace, but `gen/a.py` there may be the workspace's.
    """
    files = tuple(
        attrs.evolve(access, cwds=tuple(folder if cwd is None else cwd for cwd in access.cwds))
        for access in effects.files
    )
    return attrs.evolve(effects, files=files)


def _creates_nothing(effects: CommandEffects) -> bool:
    """Return whether a command creates no files."""
    if effects.unknown == "all":
        return False
    return all(access.kind not in ("write", "link") or access.existing for access in effects.files)


def _accesses_of_search(
    effects: CommandEffects, files: Iterable[FileAccess], findings: Findings | None
) -> Iterator[tuple[FileAccess, Findings | None]]:
    """Yield a command's accesses to the files that a search finds.

    If the search could not be evaluated, the command's own words determine the accesses.
    """
    for access in effects.files:
        if findings is None or access.kind in ("read", "any"):
            yield access, None
    for access in files:
        yield access, findings


def _local_path(text: str) -> str:
    """Return the path in an argument, or an empty string if it is on another machine."""
    if text.startswith("file:"):
        return unquote(urlsplit(text).path)
    return "" if re.match(r"[a-z][a-z0-9+.-]+://", text) else text


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


def _letters(words: tuple[str, ...]) -> str:
    """Return the letters of the short options in a command."""
    return "".join(word for word in words if re.fullmatch(r"-[a-zA-Z]+", word))


def _find_strings(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all strings in the arguments of a call in order, each with its key."""
    # Arguments come from a model; deep nesting must not exhaust the stack of calls.
    waiting: list[tuple[str, Any]] = [("", arguments)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            waiting += reversed([(str(name), inner) for name, inner in value.items()])
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in reversed(value)]
