"""Finds definitions, references and symbols with a language server.

A model names what it looks for, and hilum finds the position: models cannot count columns.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import msgspec
import trio
from hilum import Output, ReadingPolicy, ToolError, errors
from hilum_lint.diagnostics import to_one_line
from hilum_lint.unsaved import find_unsaved

from hilum_lsp.client import INITIALIZE_TIMEOUT
from hilum_lsp.errors import ServerFailed, ServerRefused
from hilum_lsp.positions import TextLines
from hilum_lsp.protocol import (
    SYMBOL_KINDS,
    DocumentSymbol,
    Location,
    LocationLink,
    SymbolInformation,
)
from hilum_lsp.uris import read_uri

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lsp.client import LanguageClient
    from hilum_lsp.documents import Document, Documents
    from hilum_lsp.server_pool import ServerPool
    from hilum_lsp.server_process import ServerProcess
    from hilum_lsp.settings import LspSettings

T = TypeVar("T")

MAX_FILE_BYTES = 5_000_000
# Maximum number of places or symbols in a result, and of characters of a shown line.
MAX_PLACES = 300
MAX_LINE = 160
# Maximum number of occurrences of a name that the server is asked about; the first ones may be in
# comments.
MAX_TRIED = 12
# Maximum number of hidden files to name.
MAX_NAMED = 3
# Maximum number of line numbers in an error.
MAX_LISTED = 20
_PART = re.compile(r"\.|::|#")
_SEARCH = "Use search_files."
# In the files that cannot be read, a line with a greater number does not exist either.
MAX_LINE_NUMBER = 10_000_000
_INCOMPLETE = "(The server is still reading the project; there may be more.)"


ALL_USES = {"context": {"includeDeclaration": True}}
"""The parameters with which a server lists a name's uses and its definition."""


@attrs.frozen
class Target:
    """A name in a file.

    Args:
        path: The file, resolved.
        shown: The file's path for messages.
        text: The file's text, without a byte order mark.
        name: The name, perhaps with the names of what it is in.
        line: The line on which it occurs, from 1; 0 if unknown.
    """

    path: Path
    shown: str
    text: str
    name: str
    line: int

    @property
    def word(self) -> str:
        """The name alone."""
        return split_name(self.name)[-1]


@attrs.frozen
class ShownPlaces:
    """The places in a server's answer, as the model reads them.

    Args:
        rows: A row for each line with a place.
        places: Number of places in the rows.
        files: Number of files with these places.
        unusable: Number of places that are in no file, or on no line of their file.
    """

    rows: tuple[str, ...]
    places: int
    files: int
    unusable: int

    def describe_unusable(self) -> str:
        """Return a sentence about the places that are not shown; empty if there are none."""
        if not self.unusable:
            return ""
        more = "1 more place is" if self.unusable == 1 else f"{self.unusable} more places are"
        return f"({more} not in a file, or behind its end.)"


@attrs.define(eq=False)
class Navigator:
    """Finds definitions, references and symbols in a session's files.

    Args:
        session: The session.
        pool: The servers.
        settings: The settings.
    """

    session: Session
    pool: ServerPool
    settings: LspSettings

    # --- the tools --------------------------------------------------------------------------------

    async def find_definition(self, name: str, path: str, line: int) -> Output:
        """Return where a name is defined. See ``LanguageServers.find_definition``."""
        target = await self.read_target(name, path, line)
        places, is_complete = await self._find_places(target, "textDocument/definition", {})
        if not places:
            raise ToolError(
                f"The language server knows no definition of {name!r} in {target.shown}.",
                code=errors.E_NOT_FOUND,
                hint=_SEARCH,
            )
        shown = await trio.to_thread.run_sync(self._show_places, places)
        note = "" if is_complete else _INCOMPLETE
        head = f"{name} is defined at: {shown.describe_unusable()} {note}"
        return _report_places(shown, " ".join(head.split()))

    async def find_references(self, name: str, path: str, line: int) -> Output:
        """Return the uses of a name. See ``LanguageServers.find_references``."""
        target = await self.read_target(name, path, line)
        places, is_complete = await self._find_places(target, "textDocument/references", ALL_USES)
        if not places:
            raise ToolError(
                f"The language server knows no use of {name!r} in {target.shown}.",
                code=errors.E_NOT_FOUND,
                hint=_SEARCH,
            )
        shown = await trio.to_thread.run_sync(self._show_places, places)
        uses = "1 use" if shown.places == 1 else f"{shown.places} uses"
        where = "1 file" if shown.files == 1 else f"{shown.files} files"
        head = f"{uses} of {name} in {where}, with its definition:"
        note = "" if is_complete else _INCOMPLETE
        hidden = await trio.to_thread.run_sync(self.describe_hidden, target.path)
        notes = f"{shown.describe_unusable()} {note} {hidden}"
        return _report_places(shown, " ".join([head, *notes.split()]))

    async def list_symbols(self, path: str, query: str) -> Output:
        """Return the symbols of a file or of the project. See ``LanguageServers.list_symbols``."""
        if path:
            return await self._list_file(path, query)
        if not query:
            raise ToolError(
                "Without a path, a query is necessary.",
                code=errors.E_BAD_ARGS,
                hint="Pass a file, or a part of the names.",
            )
        running = self.pool.running()
        if not running:
            raise ToolError(
                "No language server runs yet.",
                code=errors.E_NOT_FOUND,
                hint="Pass the path of a file in the language.",
            )
        found: list[SymbolInformation] = []
        is_complete = True
        for server in running:
            symbols, whole = await self.use(server, partial(self._find_symbols, server, query))
            found += symbols
            is_complete = is_complete and whole
        hidden = await trio.to_thread.run_sync(self._find_withheld, found)
        rows = []
        for each in found:
            shown = self._show_file(each.location.uri)
            if not shown or each.location.uri in hidden:
                continue
            where = each.location.range
            if where and not 0 <= where.start.line <= MAX_LINE_NUMBER:
                continue
            place = f"{shown}:{where.start.line + 1}" if where else shown
            rows.append(f"{place}: {_describe_kind(each.kind)} {to_one_line(each.name)}")
        head = f"Symbols with {query!r}:{'' if is_complete else ' ' + _INCOMPLETE}"
        return _report_rows(rows, head, "Pass a longer query.")

    async def _list_file(self, path: str, query: str) -> Output:
        target = await self.read_target("", path, 0)
        server = await self.pool.find_navigator(target.path)

        async def ask(
            client: LanguageClient, documents: Documents
        ) -> list[tuple[tuple[str, ...], DocumentSymbol]]:
            document = documents.synchronize(target.path, target.text)
            return list(_with_parents(await self._find_document_symbols(client, document)))

        rows = []
        count = TextLines(target.text).count
        for parents, symbol in await self.use(server, ask):
            number = symbol.selection_range.start.line + 1
            if 0 < number <= count and query.lower() in symbol.name.lower():
                kind = _describe_kind(symbol.kind)
                rows.append(f"{'  ' * len(parents)}{number}: {kind} {to_one_line(symbol.name)}")
        return _report_rows(rows, f"{target.shown}:", "Pass a query.")

    async def _find_symbols(
        self, server: ServerProcess, query: str, client: LanguageClient, documents: Documents
    ) -> tuple[list[SymbolInformation], bool]:
        """Return the symbols of the project, and whether the server knows the whole project."""
        is_complete = await server.wait_indexed(client)
        found: list[SymbolInformation] | None = await client.ask(
            "workspace/symbol",
            {"query": query},
            list[SymbolInformation] | None,
            self.settings.timeout,
        )
        return found or [], is_complete

    # --- positions --------------------------------------------------------------------------------

    async def read_target(self, name: str, path: str, line: int) -> Target:
        """Return a name in a file, as the user's editor or the disk has the file.

        Raises:
            ToolError: The file cannot be read, is not text, or needs approval to be read.
        """
        workspace = self.session.workspace
        real = workspace.resolve(path, must_exist=True)
        if await trio.to_thread.run_sync(self.is_withheld, real):
            raise ToolError(
                f"{path} needs approval to be read.", code=errors.E_DENIED, hint="Use read_file."
            )
        unsaved = await find_unsaved(self.session, [real])
        data = unsaved.get(real)
        if data is None:
            data = await workspace.read_bytes(real, MAX_FILE_BYTES)
        try:
            text = data.decode().removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise ToolError(
                f"{path} is not text in UTF-8.", code=errors.E_BAD_ARGS, hint=_SEARCH
            ) from None
        return Target(real, workspace.relative(real), text, name, line)

    async def find_offsets(
        self, client: LanguageClient, document: Document, target: Target
    ) -> list[int]:
        """Return where a name may occur in a file, the most likely offset first.

        Raises:
            ToolError: The name does not occur there.
        """
        occurrences = find_word(target.text, target.word)
        lines = TextLines(target.text)
        numbers = {offset: lines.position(offset)[0] + 1 for offset in occurrences}
        if not occurrences:
            raise ToolError(
                f"{target.word!r} does not occur in {target.shown}.",
                code=errors.E_NOT_FOUND,
                hint="Check the name and the path.",
            )
        if target.line:
            here = [offset for offset in occurrences if numbers[offset] == target.line]
            if not here:
                raise ToolError(
                    f"{target.word!r} is not on line {target.line} of {target.shown}; it is on"
                    f" {_list_numbers(numbers.values())}.",
                    code=errors.E_NOT_FOUND,
                )
            return here
        defined = await self._find_defined(client, document, target)
        return list(dict.fromkeys([*defined, *occurrences]))[:MAX_TRIED]

    async def _find_defined(
        self, client: LanguageClient, document: Document, target: Target
    ) -> list[int]:
        """Return the offset at which the file itself defines a name, if there is one.

        Raises:
            ToolError: The file defines several symbols of this name.
        """
        if "documentSymbolProvider" not in client.capabilities:
            return []
        lines = TextLines(target.text, client.encoding)
        wanted = tuple(split_name(target.name))
        found: list[int] = []
        for parents, symbol in _with_parents(await self._find_document_symbols(client, document)):
            full_name = (*parents, symbol.name)
            if full_name[-len(wanted) :] != wanted:
                continue
            start = symbol.selection_range.start
            try:
                begin = lines.offset(start.line, start.character)
            except ValueError:
                continue
            # The range may be wider than the name.
            offset = target.text.find(target.word, begin)
            if offset >= 0:
                found.append(offset)
        found = list(dict.fromkeys(found))
        if len(found) > 1:
            numbers = [lines.position(offset)[0] + 1 for offset in found]
            raise ToolError(
                f"{target.shown} defines {target.name!r} several times, on"
                f" {_list_numbers(numbers)}.",
                code=errors.E_MULTIPLE_MATCHES,
                hint="Pass the line of the one that you mean.",
            )
        return found

    async def _find_document_symbols(
        self, client: LanguageClient, document: Document
    ) -> list[DocumentSymbol]:
        params = {"textDocument": {"uri": document.uri}}
        method = "textDocument/documentSymbol"
        result = await client.request(method, params, self.settings.timeout)
        try:
            return msgspec.json.decode(result, type=list[DocumentSymbol] | None) or []
        except (msgspec.DecodeError, RecursionError):
            # An older server answers with a flat list, in which the name's own range is unknown.
            return []

    async def _find_places(
        self, target: Target, method: str, more: dict[str, Any]
    ) -> tuple[list[Location], bool]:
        """Return the places in the server's answer, and whether it knows the whole project."""
        server = await self.pool.find_navigator(target.path)

        async def ask(client: LanguageClient, documents: Documents) -> tuple[list[Location], bool]:
            document = documents.synchronize(target.path, target.text)
            is_complete = await server.wait_indexed(client)
            for offset in await self.find_offsets(client, document, target):
                params = {**make_position(client, document, target, offset), **more}
                found = await self.request_places(client, method, params)
                if found:
                    return found, is_complete
            return [], is_complete

        return await self.use(server, ask)

    async def request_places(
        self, client: LanguageClient, method: str, params: dict[str, Any]
    ) -> list[Location]:
        """Return the places in a server's answer to one request.

        Raises:
            ServerFailed: The answer has no places.
            ServerRefused: The server answered with an error.
        """
        return _read_locations(await client.request(method, params, self.settings.timeout))

    async def use(
        self,
        server: ServerProcess,
        function: Callable[[LanguageClient, Documents], Awaitable[T]],
        hint: str = _SEARCH,
    ) -> T:
        """Call a function with a running server, and report failures as tools do.

        Args:
            server: The server, which is started if necessary.
            function: Called with the client and the open files.
            hint: What the model can do if the server fails or refuses.

        Raises:
            ToolError: The server failed (``E_FAILED``) or did not answer (``E_TIMEOUT``).
        """
        seconds = self.settings.timeout
        if not server.is_ready:
            seconds += INITIALIZE_TIMEOUT
        name = server.server.name
        begun = trio.current_time()
        try:
            return await server.use(function, seconds)
        except ServerFailed as error:
            raise ToolError(
                f"The language server {name} failed: {error}", code=errors.E_FAILED, hint=hint
            ) from None
        except ServerRefused as error:
            raise ToolError(
                f"The language server {name} refused: {error}", code=errors.E_FAILED, hint=hint
            ) from None
        except trio.TooSlowError:
            waited = round(trio.current_time() - begun, 1)
            raise ToolError(
                f"The language server {name} did not answer within {waited:g} seconds.",
                code=errors.E_TIMEOUT,
                hint=f"{hint.removesuffix('.')}, or try again later.",
            ) from None

    # --- results ----------------------------------------------------------------------------------

    def _show_file(self, uri: str) -> str:
        """Return the path of a file for the model; empty if it is not a file."""
        path = read_uri(uri)
        if path is None:
            return ""
        return to_one_line(self.session.workspace.relative(path), 500)

    def is_withheld(self, path: Path) -> bool:
        """Return whether a file needs approval to be read. Blocks."""
        policy = self.session.plugin(ReadingPolicy)
        if policy is None:
            return False
        is_withheld = policy.withheld(".")
        workspace = self.session.workspace
        try:
            real = workspace.resolve(path)
        except ToolError:
            return False
        return is_withheld(workspace.relative(real)) or is_withheld(workspace.relative(path))

    def describe_hidden(self, path: Path) -> str:
        """Return a sentence about files like one that servers cannot see; empty if none. Blocks."""
        policy = self.session.plugin(ReadingPolicy)
        if policy is None:
            return ""
        names = []
        for each in policy.denied_to_commands():
            # A folder may contain such files.
            if each.endswith(path.suffix) or not Path(each).suffix:
                names.append(to_one_line(self.session.workspace.relative(each), 200))
        if not names:
            return ""
        listed = ", ".join(names[:MAX_NAMED])
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return f"(Rules hide {listed}{more} from the language server.)"

    def _find_withheld(self, symbols: Iterable[SymbolInformation]) -> set[str]:
        """Return the URIs of files that need approval to be read. Blocks."""
        found = set()
        for uri in {each.location.uri for each in symbols}:
            path = read_uri(uri)
            if path is not None and self.is_withheld(path):
                found.add(uri)
        return found

    def _show_places(self, places: Sequence[Location]) -> ShownPlaces:
        """Return places with their lines. Blocks."""
        texts: dict[str, TextLines | None] = {}
        rows: dict[str, None] = {}
        used: list[Location] = []
        for place in sorted(places, key=lambda each: (each.uri, each.range.start.line)):
            shown = self._show_file(place.uri)
            number = place.range.start.line
            if not shown or not 0 <= number <= MAX_LINE_NUMBER:
                continue
            if place.uri not in texts:
                texts[place.uri] = self._read_lines(place.uri)
            lines = texts[place.uri]
            row = f"{shown}:{number + 1}"
            if lines is not None:
                # The file may have changed since the server read it, or the server is wrong.
                if number >= lines.count:
                    continue
                row += f": {to_one_line(lines.line(number), MAX_LINE)}"
            rows[row] = None
            used.append(place)
        files = len({place.uri for place in used})
        return ShownPlaces(tuple(rows), len(used), files, len(places) - len(used))

    def _read_lines(self, uri: str) -> TextLines | None:
        """Return the lines of a file of the workspace that may be shown. Blocks."""
        path = read_uri(uri)
        workspace = self.session.workspace
        if path is None or self.is_withheld(path):
            return None
        try:
            real = workspace.resolve(path)
            with workspace.at(real) as place, place.open() as file:
                text = file.read(MAX_FILE_BYTES).decode(errors="replace")
                return TextLines(text.removeprefix("\ufeff"))
        except (ToolError, OSError):
            return None


def split_name(name: str) -> list[str]:
    """Return the parts of a name such as ``Class.method``."""
    return _PART.split(name)


def find_word(text: str, word: str) -> list[int]:
    """Return the offsets at which a word occurs in a text, not as a part of another word."""
    if not word:
        return []
    pattern = rf"(?<![\w$]){re.escape(word)}(?![\w$])"
    return [match.start() for match in re.finditer(pattern, text)]


def make_position(
    client: LanguageClient, document: Document, target: Target, offset: int
) -> dict[str, Any]:
    """Return the parameters of a request about an offset in a file."""
    line, column = TextLines(target.text, client.encoding).position(offset)
    return {
        "textDocument": {"uri": document.uri},
        "position": {"line": line, "character": column},
    }


def _read_locations(result: msgspec.Raw) -> list[Location]:
    """Return the places in an answer, which has one of several forms.

    Raises:
        ServerFailed: The answer has none of them.
    """
    for kind in (Location | None, list[Location], list[LocationLink]):
        try:
            found: Any = msgspec.json.decode(result, type=kind)
        except (msgspec.DecodeError, RecursionError):
            continue
        if found is None:
            return []
        places = found if isinstance(found, list) else [found]
        return [_to_location(place) for place in places]
    raise ServerFailed("Its answer has no places.")


def _to_location(place: Location | LocationLink) -> Location:
    if isinstance(place, Location):
        return place
    return Location(place.target_uri, place.target_selection_range)


def _with_parents(
    symbols: Iterable[DocumentSymbol], parents: tuple[str, ...] = ()
) -> Iterable[tuple[tuple[str, ...], DocumentSymbol]]:
    """Yield symbols and those inside them, each with the names of what it is in."""
    for symbol in symbols:
        yield parents, symbol
        yield from _with_parents(symbol.children, (*parents, symbol.name))


def _describe_kind(kind: int) -> str:
    return SYMBOL_KINDS[kind] if 0 < kind < len(SYMBOL_KINDS) else SYMBOL_KINDS[0]


def _list_numbers(numbers: Iterable[int]) -> str:
    """Return line numbers as a list in a sentence."""
    found = list(dict.fromkeys(numbers))
    listed = ", ".join(map(str, found[:MAX_LISTED]))
    more = " …" if len(found) > MAX_LISTED else ""
    return f"{'line' if len(found) == 1 else 'lines'} {listed}{more}"


def _report_places(shown: ShownPlaces, head: str) -> Output:
    """Return the tool output for places.

    Raises:
        ToolError: The server gave no place that exists.
    """
    if not shown.rows:
        raise ToolError(
            "The language server failed: Its answer has only places that do not exist.",
            code=errors.E_FAILED,
            hint=_SEARCH,
        )
    return _report_rows(shown.rows, head, "Use search_files with a folder for the rest.")


def _report_rows(rows: Sequence[str], head: str, rest_by: str) -> Output:
    if not rows:
        return Output("Nothing was found.", data={"count": 0})
    shown = list(rows[:MAX_PLACES])
    if len(rows) > MAX_PLACES:
        shown.append(f"[{len(rows) - MAX_PLACES} more are not shown. {rest_by}]")
    return Output("\n".join([head, *shown]), data={"count": len(rows)})
