"""Git as it is run here: to fetch what one address has, and for nothing else.

Repositories are foreign. No hook, filter, submodule, credential prompt or program named by a
repository runs: there is never a working tree that git writes, what is fetched lies in a bare
repository of our own, and the files are taken out of that by name (see ``listing``). The user's own
configuration of git holds (proxies, credential helpers), but for what could run something.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import attrs
import trio
from hilum import HilumError, UsageError
from hilum import environment as kernel_environment
from hilum.errors import E_CMD_FAIL, E_TIMEOUT
from hilum_warden import Command, Completed, ProcessError, Warden

from hilum_skills.source import Source

HEAD = "refs/hilum/head"
_OPTIONS = {
    # Nothing that a repository or a configuration names is run.
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "",
    "uploadpack.packObjectsHook": "",
    "credential.interactive": "false",
    "protocol.ext.allow": "never",
    # Nothing but what was asked for is fetched, and nothing is done with it afterwards.
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # What comes stays packed, is never held in memory whole when it is big, and comes at some
    # speed.
    "transfer.unpackLimit": "1",
    "core.bigFileThreshold": "10m",
    "http.lowSpeedLimit": "500",
    "http.lowSpeedTime": "20",
}
# Variables of git that say how to reach servers; all others would say where it works and what it
# runs.
_KEPT = re.compile(
    r"GIT_(SSL_.*|HTTP_.*|PROXY_.*|SSH|SSH_VARIANT|SSH_COMMAND|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|EXEC_PATH)"
)
_SCHEMES = {"https": "https:ssh", "ssh": "https:ssh", "http": "http", "file": "file"}
_POLL = 0.25
_LONGEST = 10_000_000  # bytes of a listing
Progress = Callable[[str], None]


class FetchError(HilumError):
    """A repository could not be fetched; what was there before is as it was."""

    code = E_CMD_FAIL


@attrs.frozen
class Git:
    """Runs git.

    Args:
        warden: Holds the processes.
        timeout: Seconds that one fetch may take.
        most: Bytes that one fetch may take on the disk.
    """

    warden: Warden
    timeout: float = 120.0
    most: int = 200_000_000

    async def fetch(self, source: Source, folder: Path, progress: Progress) -> str:
        """Fetch one commit, without its past, into a new bare repository.

        Args:
            source: What to fetch.
            folder: Where the repository is made.
            progress: Called with each step, as words.

        Returns:
            The commit's id. It is kept under the name ``HEAD`` of this module.

        Raises:
            FetchError: It cannot be reached, wants a password, does not have the ref, is too big or
                too slow.
        """
        await self._quick(
            ["init", "--quiet", "--bare", "--template=", "--", str(folder)], folder.parent
        )
        wanted = f"+{source.ref or 'HEAD'}:{HEAD}"
        options = [
            "fetch",
            "--progress",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
        ]
        done = await self._watched(
            [*options, "--depth=1", "--", source.where, wanted], source, folder, progress
        )
        if (
            done.returncode and b"dumb http transport" in done.stderr
        ):  # it cannot leave out the past
            done = await self._watched(
                [*options, "--", source.where, wanted], source, folder, progress
            )
        if done.returncode:
            _explain(source, done)
        kind = await self._quick(
            ["cat-file", "--batch-check"], folder, f"{HEAD}^{{commit}}\n".encode()
        )
        commit, _, _ = kind.stdout.decode().partition(" commit ")
        if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
            message = (
                f"{source.ref or 'HEAD'!r} of {source.text} is no commit, but something else that"
                " Git keeps."
            )
            raise FetchError(message, hint="Name a branch, a tag of a commit, or a commit.")
        return commit

    async def newest(self, source: Source, folder: Path) -> str:
        """Ask for the id of the commit that a source stands for now.

        Empty if the server does not say.

        Args:
            source: What to ask for.
            folder: An existing folder to run in.

        Raises:
            FetchError: It cannot be reached, or wants a password.
        """
        if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", source.ref):
            return source.ref
        done = await self._watched(
            ["ls-remote", "--", source.where], source, folder, lambda _: None
        )
        if done.returncode:
            _explain(source, done)
        refs = {
            name: commit
            for commit, _, name in (
                row.partition("\t") for row in done.stdout.decode("utf-8", "replace").split("\n")
            )
        }
        if source.ref:
            names = [
                f"refs/tags/{source.ref}^{{}}",
                f"refs/tags/{source.ref}",
                f"refs/heads/{source.ref}",
            ]
        else:
            names = ["HEAD"]
        return next((refs[name] for name in names if name in refs), "")

    async def tree(self, folder: Path) -> bytes:
        """List all files of the fetched commit, as ``git ls-tree -r -l -z`` writes them.

        Raises:
            FetchError: There are too many: a few objects can be made to stand for billions of
                files.
        """
        seen = 0

        def count(_: str, chunk: bytes) -> None:
            nonlocal seen
            seen += len(chunk)
            if seen > _LONGEST:
                message = "The repository has too many files."
                raise FetchError(message, hint="Copy its skills into a folder, and add that.")

        words = ["ls-tree", "-r", "-l", "-z", "--full-tree", HEAD]
        return (await self._quick(words, folder, limit=2 * _LONGEST, on_output=count)).stdout

    async def contents(self, folder: Path, objects: list[str], most: int) -> bytes:
        """Return the contents of files, as ``git cat-file --batch`` writes them.

        Args:
            folder: The repository.
            objects: Ids of the files.
            most: Bytes that all may have together.
        """
        given = "".join(f"{name}\n" for name in objects).encode()
        done = await self._quick(
            ["cat-file", "--batch"], folder, given, limit=2 * most
        )  # the window keeps two halves
        return done.stdout

    async def _quick(
        self,
        words: list[str],
        folder: Path,
        given: bytes = b"",
        limit: int = 1_000_000,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> Completed:
        """Run what touches nothing but a repository of our own."""
        command = self._command(words, folder, "none")
        try:
            with trio.fail_after(self.timeout):
                done = await self.warden.run(command, input=given, limit=limit, on_output=on_output)
        except trio.TooSlowError:
            raise FetchError(
                f"git {words[0]} took more than {self.timeout:g} seconds.", code=E_TIMEOUT
            ) from None
        except ProcessError as error:
            raise UsageError("git could not be started.", hint=f"Install git. {error}") from None
        if done.returncode:
            said = _words(done.stderr)
            raise FetchError(
                f"git {words[0]} failed: {said}",
                hint="The repository may be damaged, or the disk full.",
            )
        return done

    async def _watched(
        self, words: list[str], source: Source, folder: Path, progress: Progress
    ) -> Completed:
        """Run what talks to a server, within the limits of time and size."""
        command = self._command(words, folder, _SCHEMES[source.where.partition("://")[0]])
        big = False
        done = None

        async def watch() -> None:
            nonlocal big
            while not big:
                await trio.sleep(_POLL)
                big = await trio.to_thread.run_sync(_size, folder) > self.most
            nursery.cancel_scope.cancel()

        def show(name: str, chunk: bytes) -> None:
            nonlocal big
            if name != "stderr":
                return
            for step in re.split(r"[\r\n]", chunk.decode(errors="replace")):
                match = re.match(
                    r"(?:remote: )?([A-Z][a-z]+ (?:objects|deltas)): +(\d+%)(?:.*, ([\d.]+)"
                    r" (KiB|MiB|GiB))?",
                    step,
                )
                if match:
                    progress(
                        f"{match[1].lower()} {match[2]}"
                        + (f", {match[3]} {match[4]}" if match[3] else "")
                    )

        try:
            with trio.move_on_after(self.timeout) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    done = await self.warden.run(command, on_output=show, limit=4_000_000)
                    nursery.cancel_scope.cancel()
        except* ProcessError as error:
            raise UsageError(
                "git could not be started.", hint=f"Install git. {error.exceptions[0]}"
            ) from None
        if done is None and scope.cancelled_caught:
            message = f"{source.text} took more than {self.timeout:g} seconds."
            raise FetchError(
                message, code=E_TIMEOUT, hint="Raise skills.timeout, or try again later."
            )
        if done is None or await trio.to_thread.run_sync(_size, folder) > self.most:
            message = f"{source.text} is bigger than {self.most // 1_000_000:,} MB."
            raise FetchError(
                message,
                hint="Raise skills.megabytes, or copy its skills into a folder and add that.",
            )
        return done

    def _command(self, words: list[str], folder: Path, schemes: str) -> Command:
        options = [part for key, value in _OPTIONS.items() for part in ("-c", f"{key}={value}")]
        return Command(
            ("git", *options, *words), str(folder), environment(kernel_environment(), schemes)
        )


def environment(given: Mapping[str, str], schemes: str) -> dict[str, str]:
    """Build the environment of git: nothing asks, nothing of a repository around it counts.

    Args:
        given: The environment of this process.
        schemes: Protocols that are allowed, with colons between.
    """
    kept = {
        name: value
        for name, value in given.items()
        if not name.startswith("GIT_") or re.fullmatch(_KEPT, name)
    }
    ssh = kept.get("GIT_SSH_COMMAND", "ssh")
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": schemes,
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": f"{ssh} -oBatchMode=yes",
        "LC_ALL": "C",
        "GIT_PROTOCOL_FROM_USER": "0",
    }


def _size(folder: Path) -> int:
    total = 0
    for here, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(here, name)).st_size
            except OSError:  # git renames what it has finished
                continue
    return total


def _words(stderr: bytes) -> str:
    """What git said last that says something, on one line."""
    lines = [
        line.strip()
        for line in re.split(r"[\r\n]+", stderr.decode(errors="replace"))
        if line.strip()
    ]
    told = [
        line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote:"))
    ] or lines
    words = " ".join(told[-1].split())[:300] if told else "it said nothing"
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _explain(source: Source, done: Completed) -> NoReturn:
    said = _words(done.stderr)
    low = done.stderr.decode(errors="replace").lower()
    if any(
        words in low
        for words in (
            "could not read username",
            "could not read password",
            "authentication failed",
            "permission denied",
            "terminal prompts disabled",
        )
    ):
        hint = (
            "It is private, or is not there. Set up an ssh key or one of git's credential helpers,"
            " and try again."
        )
        raise FetchError(f"{source.text} wants a name and a password.", hint=hint)
    if "host key verification failed" in low:
        raise FetchError(
            f"ssh does not know the host of {source.text}.",
            hint="Connect to it once with ssh, and try again.",
        )
    if "couldn't find remote ref" in low or "no such ref" in low or "not our ref" in low:
        raise FetchError(
            f"{source.text} has no {source.ref or 'HEAD'!r}.",
            hint="Look at the names of its branches and tags.",
        )
    if any(
        words in low
        for words in ("not found", "does not exist", "does not appear to be a git repository")
    ):
        raise FetchError(
            f"There is no repository {source.where}, or it is private.", hint="Look at its address."
        )
    raise FetchError(
        f"{source.text} could not be fetched: {said}", hint="Look at the network and the address."
    )
