"""Renames a symbol in all files at once.

The gate of this plugin asks the server before the call is judged, and adds the files and a diff to
the call's arguments: the guard judges every file, the user sees the changes, and what was approved
is written, byte for byte. If the diff is too long to be shown, the remaining files are listed with
their number of places. A server is only believed as far as its edits replace the old name in files
of the workspace that have not changed.

Some servers list more uses of a name than they rename: ty stops at a name that a package exports
again (``from .errors import Error as Error``). hilum renames these uses, too.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import (
    Call,
    Output,
    Tool,
    ToolCall,
    ToolDenied,
    ToolError,
    Verdict,
    allow,
    errors,
    find_file_saver,
)
from hilum_lint.diagnostics import to_one_line

from hilum_lsp.errors import ServerRefused
from hilum_lsp.file_watch import find_files
from hilum_lsp.keywords import is_keyword
from hilum_lsp.name_conflicts import find_conflict
from hilum_lsp.navigation import (
    ALL_USES,
    MAX_FILE_BYTES,
    find_word,
    make_position,
    split_name,
)
from hilum_lsp.positions import BOM, Encoding, TextLines
from hilum_lsp.protocol import DocumentChange, Location, Range, TextEdit, WorkspaceEdit
from hilum_lsp.servers import SERVERS
from hilum_lsp.uris import read_uri

if TYPE_CHECKING:
    from hilum import Session, Workspace

    from hilum_lsp.client import LanguageClient
    from hilum_lsp.documents import Document, Documents
    from hilum_lsp.navigation import Navigator, Target

MAX_FILES = 1_000
# Maximum number of characters of the diff that is shown with the call.
MAX_PREVIEW = 100_000
# Maximum number of renames that wait for their approval.
MAX_PLANS = 10
# Maximum size of all files of a rename together, in bytes.
MAX_TOTAL_BYTES = 50_000_000
_NAME = re.compile(r"[^\W\d][\w$]*")
# Folders of installed packages, whose files belong to somebody else.
_INSTALLED = {"site-packages", "node_modules", ".venv", "venv"}
# What may stand in place of the old name: the new one, an import or export under another name, and
# the long form of a keyword argument or of a field that has the name of its value.
_FORMS = (
    "{new}",
    "{old} as {new}",
    "{new} as {old}",
    "{old}={new}",
    "{new}={old}",
    "{old}:{new}",
    "{new}:{old}",
    "{{{old}:{new}}}",
    "{{{new}:{old}}}",
)
_SPACE = re.compile(r" *([=:{}]) *")
_UNCHANGED = "Nothing was changed."
# Maximum number of files, and of seconds, to search for files that still contain the old name, and
# maximum number of them to name.
MAX_SEARCHED = 5_000
MAX_SEARCH_SECONDS = 2.0
MAX_NAMED = 10

_IN_PARTS = "Use find_references and edit the files in parts."
_HINT = "Check the new name, or use find_references and edit the files."


@attrs.frozen
class RenameRequest:
    """What a call asks for.

    Args:
        name: The name, perhaps with the names of what it is in.
        new_name: The new name, alone.
        path: A file in which the name occurs.
        line: The line on which it occurs, from 1; 0 if unknown.
    """

    name: str
    new_name: str
    path: str
    line: int

    @property
    def word(self) -> str:
        """The old name alone."""
        return split_name(self.name)[-1]


@attrs.frozen
class FileRename:
    """The change of one file.

    Args:
        path: The file's path, as the workspace shows it.
        before: Its content.
        after: Its new content.
        count: Number of replaced names.
    """

    path: str
    before: bytes
    after: bytes
    count: int


@attrs.frozen
class Plan:
    """A rename that was not made yet, or the reason why it cannot be made.

    Args:
        request: What was asked for.
        changes: The changes of the files.
        preview: The changes as the user reads them.
        warning: Sentences about uses that cannot be renamed and about files that already contain
            the new name; empty if there are none.
        error: Why the rename cannot be made; ``None`` if it can.
    """

    request: RenameRequest
    changes: tuple[FileRename, ...] = ()
    preview: str = ""
    warning: str = ""
    error: ToolError | None = None

    @property
    def files(self) -> list[str]:
        """The paths of the files."""
        return [change.path for change in self.changes]


@attrs.define(eq=False)
class Renames:
    """The renames of a session.

    Args:
        session: The session.
        navigator: Finds names and servers.
    """

    session: Session
    navigator: Navigator
    _plans: dict[str, Plan] = attrs.Factory(dict)

    async def complete(self, call: ToolCall, tool: Tool) -> Verdict:
        """Return a verdict that adds the files and the diff to a call.

        A rename that cannot be made is allowed without any files: the tool then reports the error.
        """
        try:
            arguments = tool.check(call.arguments)
        except ToolError:
            return allow()
        request = RenameRequest(
            arguments["name"], arguments["new_name"], arguments["path"], arguments["line"]
        )
        plan = self._plans.get(call.id)
        if plan is None or plan.request != request:
            plan = await self._make_plan(request)
            self._keep(call.id, plan)
        completed = {**arguments, "files": plan.files, "preview": plan.preview}
        if completed == arguments:
            return allow()
        if not request.line:
            # The model did not write this argument, and need not read that hilum added it.
            del completed["line"]
        return allow(arguments=completed)

    def _keep(self, identity: str, plan: Plan) -> None:
        self._plans[identity] = plan
        while len(self._plans) > MAX_PLANS:
            del self._plans[next(iter(self._plans))]

    async def _make_plan(self, request: RenameRequest) -> Plan:
        try:
            changes, missed = await self._find_changes(request)
            await trio.to_thread.run_sync(_check_conflicts, changes, request)
            preview = await trio.to_thread.run_sync(_make_preview, changes)
            warning = await trio.to_thread.run_sync(_find_clashes, changes, request.new_name)
            if missed:
                warning = f"{_describe_missed(missed, request.word)} {warning}".rstrip()
        except ToolError as error:
            return Plan(request, error=error)
        if warning:
            preview = f"[{warning}]\n{preview}"
        return Plan(request, changes, preview, warning)

    def check(self, call: Call) -> None:
        """Raise the error of a rename that cannot be made."""
        plan = self._plans.get(call.id)
        if plan is not None and plan.error is not None:
            raise plan.error

    async def apply(self, call: Call) -> Output:
        """Write the files of an approved rename, all or none.

        Raises:
            ToolError: The rename cannot be made, or a file has changed since (``E_STALE``).
        """
        plan = self._plans.pop(call.id, None)
        if plan is not None and plan.error is not None:
            raise plan.error
        # The gates have judged the files in the arguments, and no others may be written.
        if plan is None or plan.files != (call.arguments.get("files") or []):
            raise ToolError(
                f"The rename was not prepared. {_UNCHANGED}",
                code=errors.E_STALE,
                hint="Call rename_symbol again, without files.",
            )
        contents = {change.path: (change.before, change.after) for change in plan.changes}
        try:
            await find_file_saver().replace_files(call, contents)
        except ToolDenied:
            raise
        except ToolError as error:
            # The hint of another tool is about another call.
            hint = error.hint if error.code == errors.E_STALE else "Call rename_symbol again."
            raise ToolError(
                f"The rename was not made: {error.message}", code=error.code, hint=hint
            ) from None
        return await self._report(plan)

    async def _report(self, plan: Plan) -> Output:
        """Return the result of a rename that was made."""
        rows = [f"{change.path}: {change.count}" for change in plan.changes]
        diffs = [{"path": each.path, "diff": _make_diff(each)} for each in plan.changes]
        asked = plan.request
        places = _count_places(sum(change.count for change in plan.changes))
        files = "1 file" if len(rows) == 1 else f"{len(rows)} files"
        head = f"Renamed {asked.name} to {asked.new_name} in {places} in {files}:"
        first = self.session.workspace.resolve(asked.path)
        hidden = await trio.to_thread.run_sync(self.navigator.describe_hidden, first)
        head = f"{head} {hidden}".rstrip()
        rows += await trio.to_thread.run_sync(self._describe_unchanged, plan, first)
        if plan.warning:
            rows.append(plan.warning)
        return Output("\n".join([head, *rows]), data={"files": plan.files, "edits": diffs})

    def _describe_unchanged(self, plan: Plan, renamed: Path) -> list[str]:
        """Return sentences about files that still contain the old name as a word. Blocks.

        They may contain other names that are spelled the same, or the name in a text. They may also
        show that a server does not know the whole project.
        """
        word = plan.request.word
        found, searched, is_complete = self._find_unchanged(plan, renamed)
        sentences = []
        if found:
            listed = _list_names(found)
            sentences.append(f"Not changed, although the word {word} occurs there: {listed}.")
        if not is_complete:
            sentences.append(f"(Only the first {searched:,} files were searched for the word.)")
        partly = [each.path for each in plan.changes if _has_word(each.after, word)]
        if partly:
            listed = _list_names(partly)
            sentences.append(f"Changed, but the word {word} still occurs there: {listed}.")
        return sentences

    def _find_unchanged(self, plan: Plan, renamed: Path) -> tuple[list[str], int, bool]:
        """Search the files of the same language that a rename does not change. Blocks.

        Returns:
            The files that contain the old name, the number of searched files, and whether all were
            searched.
        """
        workspace = self.session.workspace
        until = time.monotonic() + MAX_SEARCH_SECONDS
        changed = {workspace.resolve(path) for path in plan.files}
        suffixes = _find_related_suffixes(renamed.suffix)
        found: list[str] = []
        searched = 0
        for name, (_, size, _) in chain.from_iterable(
            find_files(root, suffixes) for root in workspace.roots
        ):
            if searched >= MAX_SEARCHED or time.monotonic() > until:
                return found, searched, False
            searched += 1
            path = Path(name)
            # What a link leads to is searched as the file itself.
            if size > MAX_FILE_BYTES or path in changed or path.is_symlink():
                continue
            if self._contains(path, plan.request.word):
                found.append(workspace.relative(path))
        return found, searched, True

    def _contains(self, path: Path, word: str) -> bool:
        """Return whether a file that may be read contains a word. Blocks."""
        try:
            with self.session.workspace.at(path) as place, place.open() as file:
                data = file.read(MAX_FILE_BYTES)
        except (ToolError, OSError):
            return False
        if word.encode() not in data or self.navigator.is_withheld(path):
            return False
        return bool(find_word(data.decode(errors="replace"), word))

    # --- the plan ---------------------------------------------------------------------------------

    async def _find_changes(
        self, request: RenameRequest
    ) -> tuple[tuple[FileRename, ...], tuple[str, ...]]:
        """Return the changes of all files, and the uses that cannot be renamed."""
        new_name = request.new_name
        target = await self.navigator.read_target(request.name, request.path, request.line)
        if not _NAME.fullmatch(new_name) or new_name == target.word:
            raise ToolError(
                f"{new_name!r} is not a new name.",
                code=errors.E_BAD_ARGS,
                hint="Pass a name without dots, other than the old one.",
            )
        if is_keyword(new_name, target.path.suffix):
            raise ToolError(
                f"{new_name} is a keyword of the language and cannot be a name. {_UNCHANGED}",
                code=errors.E_BAD_ARGS,
                hint="Pass another name.",
            )
        server = await self.navigator.pool.find_navigator(target.path)

        async def ask(
            client: LanguageClient, documents: Documents
        ) -> tuple[WorkspaceEdit, list[Location], dict[Path, int], Encoding]:
            document = documents.synchronize(target.path, target.text)
            if not await server.wait_indexed(client):
                raise ToolError(
                    "The language server is still reading the project, so a rename would be"
                    " incomplete.",
                    code=errors.E_TIMEOUT,
                    hint="Try again later.",
                )
            edit, position = await self._request(client, document, target, new_name)
            uses = await self._list_uses(client, position)
            versions = {}
            for open_path in documents.list_paths():
                known = documents.find(open_path)
                if known is not None:
                    versions[open_path] = known.version
            return edit, uses, versions, client.encoding

        edit, uses, versions, encoding = await self.navigator.use(server, ask, hint=_HINT)
        edits = self._list_edits(edit, versions)
        finder = _MissedUseFinder(self.navigator, target.word, new_name, encoding)
        missed = await trio.to_thread.run_sync(finder.add_edits, edits, uses)
        _check_number(edits)
        await trio.to_thread.run_sync(self._check_readable, list(edits))
        reader = _ChangeReader(self.session, target.word, new_name, encoding)
        return await trio.to_thread.run_sync(reader.read_all, edits), missed

    async def _list_uses(self, client: LanguageClient, position: dict[str, Any]) -> list[Location]:
        """Return the uses of a name; empty if its definition is unknown.

        The first place is the definition, in which the name may be another one: `import numpy as
        np` in two files defines two names, though a server may list the uses of both.
        """
        wanted = ("definitionProvider", "referencesProvider")
        if not all(client.capabilities.get(each) for each in wanted):
            return []
        # The search for the word still names the files that a rename leaves.
        with suppress(ServerRefused):
            request = self.navigator.request_places
            defined = await request(client, "textDocument/definition", position)
            uses = await request(client, "textDocument/references", {**position, **ALL_USES})
            return [*defined, *uses] if len(defined) == 1 else []
        return []

    async def _request(
        self, client: LanguageClient, document: Document, target: Target, new_name: str
    ) -> tuple[WorkspaceEdit, dict[str, Any]]:
        """Return the server's edits, and the position of the name.

        Raises:
            ToolError: The server renames nothing there.
        """
        provider = client.capabilities.get("renameProvider")
        if not provider:
            raise ToolError(
                "The language server cannot rename.",
                code=errors.E_FAILED,
                hint="Use find_references and edit the files.",
            )
        asks_first = isinstance(provider, dict) and provider.get("prepareProvider")
        seconds = self.navigator.settings.timeout
        for offset in await self.navigator.find_offsets(client, document, target):
            params = make_position(client, document, target, offset)
            if asks_first:
                prepared = await client.request("textDocument/prepareRename", params, seconds)
                if bytes(prepared) == b"null":
                    continue
            edit: WorkspaceEdit | None = await client.ask(
                "textDocument/rename",
                {**params, "newName": new_name},
                WorkspaceEdit | None,
                seconds,
            )
            if edit is not None and (edit.changes or edit.document_changes):
                return edit, params
        raise ToolError(
            f"The language server renames no {target.name!r} in {target.shown}.",
            code=errors.E_NOT_FOUND,
            hint="Check the name and pass its line.",
        )

    def _list_edits(
        self, edit: WorkspaceEdit, versions: dict[Path, int]
    ) -> dict[Path, list[TextEdit]]:
        """Return the edits of each file.

        Raises:
            ToolError: The server would do more than change files, or answered for an old version.
        """
        changes = edit.document_changes
        if changes is None:
            found = {uri: list(edits) for uri, edits in (edit.changes or {}).items()}
        else:
            found = {}
            for change in changes:
                self._check_version(change, versions)
                assert change.text_document is not None
                found.setdefault(change.text_document.uri, []).extend(change.edits)
        _check_number(found)
        by_path: dict[Path, list[TextEdit]] = {}
        for uri, edits in found.items():
            by_path.setdefault(self._resolve(uri), []).extend(edits)
        return by_path

    def _check_version(self, change: DocumentChange, versions: dict[Path, int]) -> None:
        document = change.text_document
        if change.kind or document is None:
            raise ToolError(
                f"The language server would also {change.kind or 'change'} a file. {_UNCHANGED}",
                code=errors.E_DENIED,
                hint="Rename the file with a command, and edit its imports.",
            )
        path = read_uri(document.uri)
        version = versions.get(path) if path is not None else None
        # gopls sends version 0 for files that only the disk has.
        is_unknown = document.version is None or (document.version == 0 and version is None)
        if not is_unknown and document.version != version:
            raise ToolError(
                f"The language server answered for an old version of a file. {_UNCHANGED}",
                code=errors.E_STALE,
                hint="Try again.",
            )

    def _check_readable(self, paths: Iterable[Path]) -> None:
        """Raise ``ToolError`` if a file needs approval to be read. Blocks."""
        for path in paths:
            if self.navigator.is_withheld(path):
                shown = self.session.workspace.relative(path)
                raise ToolError(
                    f"The rename would change {shown}, which needs approval to be read."
                    f" {_UNCHANGED}",
                    code=errors.E_DENIED,
                    hint="Tell the user.",
                )

    def _resolve(self, uri: str) -> Path:
        """Return the file of a URI.

        Raises:
            ToolError: It is not a file of the project.
        """
        path = read_uri(uri)
        shown = uri[:200]
        try:
            real = self.session.workspace.resolve(path) if path is not None else None
        except ToolError:
            real = None
        if path is None or real is None:
            where = "is outside the workspace"
            if path is not None and any(map(path.is_relative_to, self.session.workspace.roots)):
                shown = self.session.workspace.relative(path)[:200]
                where = "leads out of the workspace by a link"
            raise ToolError(
                f"The language server would change {shown!r}, which {where}. {_UNCHANGED}",
                code=errors.E_PATH_TRAVERSAL,
                hint="Only names of the project itself can be renamed.",
            )
        if _is_installed(self.session.workspace, real, path):
            raise ToolError(
                f"The language server would change {shown!r}, an installed package. {_UNCHANGED}",
                code=errors.E_PATH_TRAVERSAL,
                hint="Only names of the project itself can be renamed.",
            )
        return real


@attrs.frozen
class _MissedUseFinder:
    """Finds the uses of a name that a server lists but does not rename. Blocks.

    Args:
        navigator: Knows which files may be read.
        word: The old name.
        new_name: The new name.
        encoding: The unit of the server's columns.
    """

    navigator: Navigator
    word: str
    new_name: str
    encoding: Encoding

    def add_edits(
        self, edits: dict[Path, list[TextEdit]], places: Sequence[Location]
    ) -> tuple[str, ...]:
        """Add the edits that a server left out.

        Args:
            edits: The server's edits of each file, which this method completes.
            places: The definition of the name, and its uses.

        Returns:
            The places, as `file:line`, that contain the name but are not just the name.
        """
        texts: dict[str, tuple[Path, TextLines] | None] = {}
        missed: list[str] = []
        for number, place in enumerate(places):
            if place.uri not in texts:
                texts[place.uri] = self._read(place.uri)
            found = texts[place.uri]
            text = self._find_text(found, place.range)
            if number == 0:
                # Something that is defined elsewhere, or under another name.
                if text != self.word:
                    return ()
                continue
            if found is None or not find_word(text, self.word):
                continue
            path, _ = found
            if any(_overlap(place.range, edit.range) for edit in edits.get(path, ())):
                continue
            if text == self.word:
                edits.setdefault(path, []).append(TextEdit(place.range, self.new_name))
            else:
                shown = self.navigator.session.workspace.relative(path)
                missed.append(f"{shown}:{place.range.start.line + 1}")
        return tuple(dict.fromkeys(missed))

    def _read(self, uri: str) -> tuple[Path, TextLines] | None:
        """Return a file of the project and its text; None if it is none or cannot be read."""
        path = read_uri(uri)
        workspace = self.navigator.session.workspace
        if path is None:
            return None
        try:
            real = workspace.resolve(path)
            if _is_installed(workspace, real, path):
                return None
            with workspace.at(real) as place, place.open() as file:
                text = file.read(MAX_FILE_BYTES).removeprefix(BOM).decode(errors="replace")
        except (ToolError, OSError):
            return None
        return real, TextLines(text, self.encoding)

    def _find_text(self, found: tuple[Path, TextLines] | None, where: Range) -> str:
        """Return the text in a range; empty if it is unknown."""
        if found is None:
            return ""
        lines = found[1]
        try:
            begin = lines.offset(where.start.line, where.start.character)
            return lines.text[begin : lines.offset(where.end.line, where.end.character)]
        except ValueError:
            return ""


@attrs.frozen
class _ChangeReader:
    """Reads the files of a rename and applies the edits. Blocks.

    Args:
        session: The session.
        word: The old name.
        new_name: The new name.
        encoding: The unit of the server's columns.
    """

    session: Session
    word: str
    new_name: str
    encoding: Any

    def read_all(self, edits: dict[Path, list[TextEdit]]) -> tuple[FileRename, ...]:
        """Return the changed contents of all files, in the order of their paths."""
        found = []
        total = 0
        for path in sorted(edits):
            change = self._read(path, edits[path])
            total += len(change.before)
            if total > MAX_TOTAL_BYTES:
                raise ToolError(
                    f"The rename would change files of more than {MAX_TOTAL_BYTES // 1_000_000} MB."
                    f" {_UNCHANGED}",
                    code=errors.E_TOO_LARGE,
                    hint=_IN_PARTS,
                )
            if change.after != change.before:
                found.append(change)
        if not found:
            raise ToolError(
                "The rename changes nothing.",
                code=errors.E_NOT_FOUND,
                hint="Check the name and pass its line.",
            )
        return tuple(found)

    def _read(self, path: Path, edits: Iterable[TextEdit]) -> FileRename:
        shown = self.session.workspace.relative(path)
        with self.session.workspace.at(path) as place, place.open() as file:
            before = file.read(MAX_FILE_BYTES + 1)
        mark = BOM if before.startswith(BOM) else b""
        try:
            text = before.removeprefix(BOM).decode()
        except UnicodeDecodeError:
            text = ""
        if not text or len(before) > MAX_FILE_BYTES:
            raise ToolError(
                f"{shown} is not text in UTF-8, or is too large. {_UNCHANGED}",
                code=errors.E_CONTENT,
                hint=_IN_PARTS,
            )
        edits = list(edits)
        if mark:
            # Some servers count the mark of a file that they read themselves as a character.
            with suppress(ToolError):
                after, count = self._apply(shown, f"\ufeff{text}", edits)
                return FileRename(shown, before, after.encode(), count)
        after, count = self._apply(shown, text, edits)
        return FileRename(shown, before, mark + after.encode(), count)

    def _apply(self, shown: str, text: str, edits: Iterable[TextEdit]) -> tuple[str, int]:
        """Return a text after its edits, and their number.

        Raises:
            ToolError: The server has another text, or would write more than the new name.
        """
        lines = TextLines(text, self.encoding)
        # A file that has two paths, because of a link, may be edited twice in the same way.
        spans = set()
        for edit in edits:
            start, end = edit.range.start, edit.range.end
            try:
                begin = lines.offset(start.line, start.character)
                stop = lines.offset(end.line, end.character)
            except ValueError:
                raise self._stale(shown) from None
            spans.add((begin, stop, edit.new_text))
        parts = []
        at = 0
        for begin, stop, new_text in sorted(spans):
            # Whatever the server meant, if this is not the old name, then the server has another
            # text than the file.
            if begin < at or not find_word(text[begin:stop], self.word):
                raise self._stale(shown)
            if not self._is_renamed(text[begin:stop], new_text):
                raise ToolError(
                    f"The language server would write more than the new name into {shown}."
                    f" {_UNCHANGED}",
                    code=errors.E_DENIED,
                    hint="Use find_references and edit the files.",
                )
            parts += [text[at:begin], new_text]
            at = stop
        parts.append(text[at:])
        return "".join(parts), len(spans)

    def _is_renamed(self, old_text: str, new_text: str) -> bool:
        """Return whether two texts differ only in the name."""
        pieces = _split_at(old_text, self.word)
        wanted = _SPACE.sub(r"\1", new_text)
        for form in _FORMS:
            put = form.format(old=self.word, new=self.new_name)
            if _SPACE.sub(r"\1", put.join(pieces)) == wanted:
                return True
        return False

    def _stale(self, shown: str) -> ToolError:
        return ToolError(
            f"The language server has another version of {shown}. {_UNCHANGED}",
            code=errors.E_STALE,
            hint="Try again.",
        )


def _is_installed(workspace: Workspace, real: Path, path: Path) -> bool:
    """Return whether a file belongs to an installed package.

    Args:
        workspace: The workspace.
        real: The file's path, resolved.
        path: The path as the server writes it.
    """
    parts = {*Path(workspace.relative(real)).parts, *path.parts[-20:]}
    roots = {part for root in workspace.roots for part in root.parts}
    return bool((parts - roots) & _INSTALLED)


def _check_number(files: Collection[object]) -> None:
    """Raise ``ToolError`` if a rename would change too many files."""
    if len(files) > MAX_FILES:
        raise ToolError(
            f"The rename would change more than {MAX_FILES:,} files. {_UNCHANGED}",
            code=errors.E_TOO_LARGE,
            hint=_IN_PARTS,
        )


def _overlap(one: Range, other: Range) -> bool:
    """Return whether two ranges of a file have a character in common."""
    starts = [(each.start.line, each.start.character) for each in (one, other)]
    ends = [(each.end.line, each.end.character) for each in (one, other)]
    return max(starts) < min(ends)


def _describe_missed(places: Sequence[str], word: str) -> str:
    """Return a warning about uses that cannot be renamed."""
    listed = ", ".join(to_one_line(place, 200) for place in places[:MAX_NAMED])
    more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
    return f"Warning: these uses of {word} are not renamed, so edit them: {listed}{more}."


def _find_related_suffixes(suffix: str) -> tuple[str, ...]:
    """Return the suffixes of the files that the servers for a suffix serve."""
    suffixes = {suffix}
    for server in SERVERS:
        if suffix in server.languages:
            suffixes.update(server.languages)
    return tuple(sorted(suffixes))


def _count_places(count: int) -> str:
    return "1 place" if count == 1 else f"{count:,} places"


def _make_diff(change: FileRename) -> str:
    """Return a change as a unified diff, with "\\n" as newlines."""
    old = change.before.removeprefix(BOM).decode().replace("\r\n", "\n")
    new = change.after.removeprefix(BOM).decode().replace("\r\n", "\n")
    rows = difflib.unified_diff(
        re.findall(r"[^\n]*\n|[^\n]+", old),
        re.findall(r"[^\n]*\n|[^\n]+", new),
        change.path,
        change.path,
        n=1,
    )
    marked = []
    for row in rows:
        marked.append(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n")
    return "".join(marked)


def _split_at(text: str, word: str) -> list[str]:
    """Return the parts of a text between the occurrences of a word."""
    pieces = []
    at = 0
    for offset in find_word(text, word):
        pieces.append(text[at:offset])
        at = offset + len(word)
    return [*pieces, text[at:]]


def _has_word(data: bytes, word: str) -> bool:
    return bool(find_word(data.decode(), word))


def _list_names(paths: Iterable[str]) -> str:
    """Return the first paths as a list in a sentence."""
    found = sorted(paths)
    listed = ", ".join(to_one_line(name, 200) for name in found[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return f"{listed}{more}"


def _find_clashes(changes: Iterable[FileRename], new_name: str) -> str:
    """Return a warning if files already contain the new name; empty if none does."""
    found = [each.path for each in changes if _has_word(each.before, new_name)]
    if not found:
        return ""
    return f"Warning: the word {new_name} already occurs in {_list_names(found)}."


def _check_conflicts(changes: Iterable[FileRename], request: RenameRequest) -> None:
    """Refuse a rename after which one name would mean two things in a file of Python code.

    No language server refuses it.
    """
    word = request.word
    for change in changes:
        if not change.path.endswith((".py", ".pyi")):
            continue
        before = change.before.decode("utf-8-sig")
        after = change.after.decode("utf-8-sig")
        where = find_conflict(before, after, word, request.new_name)
        if where:
            raise ToolError(
                f"{request.new_name} already means something else in {where} of"
                f" {to_one_line(change.path, 200)}, where {word} would become {request.new_name}."
                f" {_UNCHANGED}",
                code=errors.E_BAD_ARGS,
                hint="Choose another name, or rename the other one first.",
            )


def _make_preview(changes: Iterable[FileRename]) -> str:
    """Return the diffs of all files.

    Diffs beyond ``MAX_PREVIEW`` are left out. Their files are listed first, so that nobody approves
    a change of a file that was not named.
    """
    parts: list[str] = []
    left = MAX_PREVIEW
    omitted: list[str] = []
    for change in changes:
        diff = _make_diff(change)
        if len(diff) > left:
            omitted.append(f"{to_one_line(change.path, 500)}: {_count_places(change.count)}\n")
            continue
        left -= len(diff)
        parts.append(diff)
    if omitted:
        head = "[The diff is too long to be shown. The name is replaced in these files, too:]\n"
        parts = [head, *omitted, *parts]
    return "".join(parts)
