"""The Git client that fetches one commit of an untrusted repository.

No hook, filter, submodule, credential prompt or program named by a repository runs: Git never
writes a working tree. A commit is fetched into a bare repository that hilum creates, and files are
read by name from that repository (see ``selection``). The user's own Git configuration applies,
including proxies and credential helpers, but hilum overrides settings that name hooks and other
programs, such as ``core.hooksPath``.

Git child processes, not GitPython, also read objects: GitPython's default backend starts ``git
cat-file`` itself, and neither the warden nor a cancellation would end that process. GitPython's
pure Python backend is deprecated as insecure. A malicious pack can expand to any size, but in a
child process it cannot exhaust hilum's memory. Reading 300 files takes 17 ms.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import attrs
import trio
from hilum import HilumError, UsageError, walk_folders
from hilum import environment as kernel_environment
from hilum.errors import E_CMD_FAIL, E_TIMEOUT
from hilum.processes import Command, CommandError, Completed, Warden

from hilum_skills.source import SkillSource

HEAD = "refs/hilum/head"
# A commit id in SHA-1 or SHA-256 form.
_COMMIT = "[0-9a-f]{40}|[0-9a-f]{64}"
_OPTIONS = {
    # Do not run programs named by a repository or a configuration.
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "",
    "uploadpack.packObjectsHook": "",
    "credential.interactive": "false",
    "protocol.ext.allow": "never",
    # Fetch only the requested commit, and do not run maintenance afterwards.
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # Keep objects packed, stream large ones, and end a stalled transfer.
    "transfer.unpackLimit": "1",
    "core.bigFileThreshold": "10m",
    "http.lowSpeedLimit": "500",
    "http.lowSpeedTime": "20",
}
# Variables that configure how Git connects to servers. Any other variable could change which
# repository Git uses or which programs it runs.
_KEPT = re.compile(
    r"GIT_(SSL_.*|HTTP_.*|PROXY_.*|SSH|SSH_VARIANT|SSH_COMMAND|CONFIG_GLOBAL|CONFIG_SYSTEM"
    r"|CONFIG_NOSYSTEM|EXEC_PATH)"
)
# The protocols that Git may use for a URL, including submodules and redirects.
_SCHEMES = {"https": "https:ssh", "ssh": "https:ssh", "http": "http", "file": "file"}
# Seconds between two checks of the size of a repository that is being fetched.
_SIZE_INTERVAL = 0.25
_MAX_LISTING = 10_000_000  # maximum size of a listing in bytes
_PROGRESS = r"(?:remote: )?([A-Z][a-z]+ (?:objects|deltas)): +(\d+%)(?:.*, ([\d.]+) (KiB|MiB|GiB))?"
Progress = Callable[[str], None]


class FetchError(HilumError):
    """Raised if a repository cannot be fetched. Previously fetched files are unchanged."""

    code = E_CMD_FAIL


@attrs.frozen
class GitClient:
    """A client that fetches repositories with Git.

    Args:
        warden: The warden that runs and ends the child processes.
        timeout: Time limit for one fetch, in seconds.
        max_bytes: Maximum disk space for one fetch, in bytes.
    """

    warden: Warden
    timeout: float = 120.0
    max_bytes: int = 200_000_000

    async def fetch(self, source: SkillSource, folder: Path, progress: Progress) -> str:
        """Fetch one commit, without its history, into a new bare repository.

        Args:
            source: The source.
            folder: The path at which to create the repository.
            progress: A function to call with a description of each step.

        Returns:
            The id of the commit. The ref in this module's constant ``HEAD`` points to the commit.

        Raises:
            FetchError: The repository cannot be reached, requires a password, does not contain the
                ref, or exceeds the size or time limit.
        """
        # The template is empty, because the user's ``init.templateDir`` may contain hooks.
        await self._run_local(
            ["init", "--quiet", "--bare", "--template=", "--", str(folder)], folder.parent
        )
        # ``parse_source`` has rejected refs with a colon or a leading hyphen.
        wanted = f"+{source.ref or 'HEAD'}:{HEAD}"
        options = [
            "fetch",
            "--progress",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
        ]
        done = await self._run_remote(
            [*options, "--depth=1", "--", source.where, wanted],
            source,
            folder,
            progress,
        )
        # A server that only serves static files cannot omit the history.
        if done.returncode and b"dumb http transport" in done.stderr:
            done = await self._run_remote(
                [*options, "--", source.where, wanted],
                source,
                folder,
                progress,
            )
        if done.returncode:
            _explain(source, done)
        kind = await self._run_local(
            ["cat-file", "--batch-check"],
            folder,
            # ``^{commit}`` follows an annotated tag to its commit (gitrevisions(7)).
            f"{HEAD}^{{commit}}\n".encode(),
        )
        commit, _, _ = kind.stdout.decode().partition(" commit ")
        if not re.fullmatch(_COMMIT, commit):
            ref = source.ref or "HEAD"
            message = f"{ref!r} of {source.text} is not a commit but another kind of Git object."
            # A tag may also point to a tree or a single file.
            raise FetchError(message, hint="Use a branch, a commit, or a tag of a commit.")
        return commit

    async def find_newest_commit(self, source: SkillSource, folder: Path) -> str:
        """Return the id of the commit that a source currently names; empty if there is none.

        Args:
            source: The source.
            folder: An existing folder in which Git runs.

        Raises:
            FetchError: The repository cannot be reached, or requires a password.
        """
        # A commit never changes, so there is no need to contact the server.
        if re.fullmatch(_COMMIT, source.ref):
            return source.ref
        done = await self._run_remote(
            ["ls-remote", "--", source.where],
            source,
            folder,
            lambda _: None,
        )
        if done.returncode:
            _explain(source, done)
        refs: dict[str, str] = {}
        for row in done.stdout.decode("utf-8", "replace").split("\n"):
            commit, _, name = row.partition("\t")
            refs[name] = commit
        if source.ref:
            # "^{}" marks the commit to which an annotated tag points; it takes precedence over the
            # tag itself.
            names = [
                f"refs/tags/{source.ref}^{{}}",
                f"refs/tags/{source.ref}",
                f"refs/heads/{source.ref}",
            ]
        else:
            names = ["HEAD"]
        return next((refs[name] for name in names if name in refs), "")

    async def list_tree(self, folder: Path) -> bytes:
        """Return the output of ``git ls-tree -r -l -z`` for the fetched commit.

        Raises:
            FetchError: The commit has too many files; a few objects can describe billions of files.
        """
        seen = 0

        def count(_: str, chunk: bytes) -> None:
            nonlocal seen
            # Bytes are counted while Git runs, so that the command ends at the limit instead of
            # filling the memory.
            seen += len(chunk)
            if seen > _MAX_LISTING:
                message = "The repository has too many files."
                raise FetchError(
                    message, hint="Copy its skills into a folder, and add that folder."
                )

        words = ["ls-tree", "-r", "-l", "-z", "--full-tree", HEAD]
        done = await self._run_local(words, folder, limit=2 * _MAX_LISTING, on_output=count)
        return done.stdout

    async def read_objects(self, folder: Path, objects: list[str], most: int) -> bytes:
        """Return the output of ``git cat-file --batch`` for some files.

        Args:
            folder: The repository.
            objects: Ids of the files.
            most: Maximum total size of the files, in bytes.
        """
        given = "".join(f"{name}\n" for name in objects).encode()
        # The warden keeps the beginning and the end of longer output, each up to half of the limit.
        done = await self._run_local(["cat-file", "--batch"], folder, given, limit=2 * most)
        return done.stdout

    async def _run_local(
        self,
        words: list[str],
        folder: Path,
        given: bytes = b"",
        limit: int = 1_000_000,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> Completed:
        """Run a command that uses only the local repository."""
        command = self._command(words, folder, "none")
        try:
            with trio.fail_after(self.timeout):
                done = await self.warden.run(command, input=given, limit=limit, on_output=on_output)
        except trio.TooSlowError:
            raise FetchError(
                f"git {words[0]} took more than {self.timeout:g} seconds.", code=E_TIMEOUT
            ) from None
        except CommandError as error:
            raise UsageError("git could not be started.", hint=f"Install git. {error}") from None
        if done.returncode:
            raise FetchError(
                f"git {words[0]} failed: {_find_message(done.stderr)}",
                hint="The repository may be damaged, or the disk may be full.",
            )
        return done

    async def _run_remote(
        self,
        words: list[str],
        source: SkillSource,
        folder: Path,
        progress: Progress,
    ) -> Completed:
        """Run a command that connects to a server, within the time and size limits."""
        command = self._command(words, folder, _SCHEMES[source.where.partition("://")[0]])
        big = False
        done = None

        async def watch() -> None:
            nonlocal big
            while not big:
                await trio.sleep(_SIZE_INTERVAL)
                # Git has no option that limits the size of a fetch.
                big = await trio.to_thread.run_sync(_size, folder) > self.max_bytes
            nursery.cancel_scope.cancel()

        def show(name: str, chunk: bytes) -> None:
            if name != "stderr":
                return
            for line in re.split(r"[\r\n]", chunk.decode(errors="replace")):
                step = _parse_progress(line)
                if step:
                    progress(step)

        try:
            with trio.move_on_after(self.timeout) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    done = await self.warden.run(command, on_output=show, limit=4_000_000)
                    nursery.cancel_scope.cancel()
        except* CommandError as error:
            raise UsageError(
                "git could not be started.", hint=f"Install git. {error.exceptions[0]}"
            ) from None
        if done is None and scope.cancelled_caught:
            message = f"{source.text} took more than {self.timeout:g} seconds."
            raise FetchError(
                message,
                code=E_TIMEOUT,
                hint="Raise skills.timeout, or try again later.",
            )
        # Check the size again, because a fast fetch may end between two checks.
        if done is None or await trio.to_thread.run_sync(_size, folder) > self.max_bytes:
            message = f"{source.text} is larger than {self.max_bytes // 1_000_000:,} MB."
            raise FetchError(
                message,
                hint="Raise skills.megabytes, or copy the skills to a folder and add that folder.",
            )
        return done

    def _command(self, words: list[str], folder: Path, schemes: str) -> Command:
        options: list[str] = []
        for key, value in _OPTIONS.items():
            options += ["-c", f"{key}={value}"]
        return Command(
            ("git", *options, *words),
            str(folder),
            make_environment(kernel_environment(), schemes),
        )


def make_environment(given: Mapping[str, str], schemes: str) -> dict[str, str]:
    """Return an environment in which Git never prompts and ignores enclosing repositories.

    Args:
        given: The environment of this process.
        schemes: The allowed protocols, separated by colons.
    """
    kept = {
        name: value
        for name, value in given.items()
        # The filter removes, for example, ``GIT_CONFIG_COUNT`` and ``GIT_DIR``, which Git sets if
        # hilum runs in a Git hook.
        if not name.startswith("GIT_") or re.fullmatch(_KEPT, name)
    }
    ssh = kept.get("GIT_SSH_COMMAND", "ssh")
    return kept | {
        # Without these variables, Git would prompt on the terminal that hilum is using, and wait
        # until the time limit.
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        # A server may redirect to another protocol, such as ``ext::``, which runs a command.
        "GIT_ALLOW_PROTOCOL": schemes,
        "GIT_LFS_SKIP_SMUDGE": "1",
        # Reading an object must not connect to a server that the repository's configuration names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        # BatchMode makes ssh fail instead of prompting for a passphrase or an unknown host.
        "GIT_SSH_COMMAND": f"{ssh} -oBatchMode=yes",
        # ``_KNOWN_ERRORS`` and ``_PROGRESS`` contain Git's English texts.
        "LC_ALL": "C",
        "GIT_PROTOCOL_FROM_USER": "0",
    }


def _parse_progress(line: str) -> str:
    """Return a short form of one of Git's progress lines; empty for other lines."""
    match = re.match(_PROGRESS, line)
    if match is None:
        return ""
    step, percent, amount, unit = match.groups()
    size = f", {amount} {unit}" if amount else ""
    return f"{step.lower()} {percent}{size}"


def _size(folder: Path) -> int:
    total = 0
    for here, _, files in walk_folders(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(here, name)).st_size
            except OSError:  # Git renames files when they are complete
                continue
    return total


def _find_message(stderr: bytes) -> str:
    """Return the last line of Git's standard error output that describes an error."""
    stripped = [line.strip() for line in re.split(r"[\r\n]+", stderr.decode(errors="replace"))]
    lines = [line for line in stripped if line]
    if not lines:
        return "without a message"
    prefixes = ("fatal:", "error:", "ERROR:", "remote:")
    explaining = [line for line in lines if line.startswith(prefixes)] or lines
    message = " ".join(explaining[-1].split())[:300]
    # The text comes from the server, so it may contain terminal escape sequences.
    return "".join(letter if letter.isprintable() else "?" for letter in message)


# Git's error texts for errors that the user can correct, in lowercase, each with a message and a
# hint.
_KNOWN_ERRORS = (
    (
        (
            "could not read username",
            "could not read password",
            "authentication failed",
            "permission denied",
            "terminal prompts disabled",
        ),
        "{text} requires a name and a password.",
        "It is private or does not exist. Set up an ssh key or one of Git's credential helpers,"
        " and try again.",
    ),
    (
        ("host key verification failed",),
        "ssh does not know the host of {text}.",
        "Connect to it once with ssh, and try again.",
    ),
    (
        ("couldn't find remote ref", "no such ref", "not our ref"),
        "{text} has no {ref!r}.",
        "Check the names of its branches and tags.",
    ),
    (
        ("not found", "does not exist", "does not appear to be a git repository"),
        "There is no repository {where}, or it is private.",
        "Check its address.",
    ),
)


def _explain(source: SkillSource, done: Completed) -> NoReturn:
    """Raise the user-facing error for a failed Git command."""
    printed = done.stderr.decode(errors="replace").lower()
    names = {"text": source.text, "ref": source.ref or "HEAD", "where": source.where}
    for texts, message, hint in _KNOWN_ERRORS:
        if any(text in printed for text in texts):
            raise FetchError(message.format(**names), hint=hint)
    raise FetchError(
        f"{source.text} could not be fetched: {_find_message(done.stderr)}",
        hint="Check the network and the address.",
    )
