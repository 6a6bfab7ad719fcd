"""``search_files``: what stands in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import trio
from hilum import Call, Output, ToolError, errors, section, setting, tool

from hilum_search.places import Aim, aim, show
from hilum_search.running import FoundFile, FoundLine, Scope, Search, list_files, ripgrep, search
from hilum_search.withholding import LeftOut, revealing, withheld_files

if TYPE_CHECKING:
    from hilum_search.engine.patterns import Pattern

COUNTED = 1000
"""Matches that are counted; of more it is only said that there are more."""
LINE = 300
"""Characters of a line that are shown."""
TEXT = 40_000
"""Characters of all lines together."""
SLACK = 10.0
"""Seconds the kernel waits longer than the tools, so that what was found so far gets back to the
model.
"""
IGNORED = (
    "Not searched: what .gitignore and .ignore files name, version control folders, binary files"
)


@section("search")
class SearchSettings:
    """How long a search may take, how much it gives, and what does it."""

    timeout: float = setting(default=15.0, minimum=0.1, help="Seconds a search may take.")
    limit: int = setting(
        default=50, minimum=1, project="lower", help="Most matching lines of one search_files."
    )
    path_limit: int = setting(
        default=100, minimum=1, project="lower", help="Most paths of one glob_search."
    )
    max_file_size: int = setting(
        default=10_000_000,
        minimum=0,
        project="lower",
        help="Bytes of a file above which it is searched only when named; 0 for any.",
    )
    engine: Literal["auto", "rg", "python"] = setting(
        default="auto", help="What searches: ripgrep where there is one, or Python."
    )

    def rg(self) -> str:
        """Return the path of the ripgrep to use; empty for the engine in Python."""
        found = "" if self.engine == "python" else ripgrep()
        if self.engine == "rg" and not found:
            hint = 'Install hilum-search[rg], or set search.engine to "auto".'
            raise ToolError(
                "The setting search.engine wants ripgrep (rg), which is not there.", hint=hint
            )
        return found


@tool(risk="read", effect="pure", reads="path")
async def search_files(
    call: Call,
    pattern: str,
    path: str = ".",
    glob: str = "",
    literal: bool = False,
    ignore_case: bool = False,
    context: Annotated[int, msgspec.Meta(ge=0, le=20)] = 2,
    include_ignored: bool = False,
) -> Output:
    """Search the content of files.

    Shows matching lines ("12:text") and the lines around them ("13-text").

    Args:
        pattern: Regular expression (Python or ripgrep); \\n matches across lines.
        path: Folder or file, relative to the workspace.
        glob: Only these files: *.py, tests/**/*.{ts,tsx}; ! before it excludes them.
        literal: The pattern is plain text.
        ignore_case: Ignore case.
        context: Lines around each match.
        include_ignored: Also search what .gitignore excludes.
    """
    settings = call.session.settings(SearchSettings)
    wanted = _pattern(pattern, literal, ignore_case)
    rg = settings.rg()

    def prepare() -> tuple[Aim, Scope, Callable[[str], bool] | None]:
        place = aim(
            call.workspace, path, glob, ignored=include_ignored, max_size=settings.max_file_size
        )
        named = call.workspace.resolve(path or ".")
        if named.is_file():
            scope = place.scope._replace(revealed=revealing(call.session, str(named)))
            return (
                place._replace(scope=scope),
                scope,
                withheld_files(call.session, call.workspace.relative(named)),
            )
        listed = place.scope._replace(revealed=revealing(call.session))
        return place, listed, withheld_files(call.session, call.workspace.relative(named))

    place, listed, withheld = await trio.to_thread.run_sync(prepare, abandon_on_cancel=True)
    left_out = LeftOut(place.wanted, withheld)

    def is_shown(file: str) -> bool:
        return place.wanted(file) and not (withheld is not None and withheld(file))

    began = trio.current_time()
    late = True
    found = Search(is_shown, lambda file: call.emit(_brief(file)), max(COUNTED, settings.limit))
    engine = ""
    shown = found
    failed: ToolError | None = None
    with trio.move_on_after(settings.timeout):
        async with trio.open_nursery() as nursery:
            if withheld is not None:
                # All files are counted, not those with a match: else the count would tell what is
                # in them.
                nursery.start_soon(_count, call, rg, listed, left_out)
            try:
                engine = await search(call.processes, rg, place.scope, wanted, context, found)
                if found.matches > found.most:  # which of them come first is known only in order
                    shown = Search(is_shown, lambda file: None, settings.limit, sorted=True)
                    await search(
                        call.processes,
                        rg if engine == "rg" else "",
                        place.scope,
                        wanted,
                        context,
                        shown,
                    )
            except ToolError as error:
                failed = error
                nursery.cancel_scope.cancel()
        if withheld is None and not found.matches and (place.filters or found.searched is None):
            await _count(call, rg, listed, left_out)
        late = False
    if failed is not None:
        raise failed
    if left_out.complete:
        found.searched = left_out.searched
    text, data = _told(shown, found, settings, place, wanted, late)
    if withheld is not None and (left_out.count or not left_out.complete):
        text += f"\n{left_out.described()}"
    data |= {
        "engine": engine,
        "seconds": round(trio.current_time() - began, 3),
        "left_out": left_out.count,
    }
    return Output(text, data=data, code=errors.E_TIMEOUT if late else "")


def _pattern(pattern: str, literal: bool, ignore_case: bool) -> Pattern:
    if not pattern or len(pattern) > 10_000 or "\0" in pattern:
        problem = "The pattern is empty, has a null byte, or more than 10,000 characters."
        raise ToolError(
            problem, code=errors.E_BAD_ARGS, hint="Give a short regular expression or text."
        )
    from hilum_search.engine.patterns import Pattern, PatternError

    try:
        return Pattern(pattern, literal=literal, ignore_case=ignore_case)
    except PatternError as error:
        place = f"{pattern[: error.position][-40:]}⟨here⟩{pattern[error.position :][:40]}"
        raise ToolError(
            f"The pattern is no regular expression: {error.problem}, at character"
            f" {error.position + 1}: {place}",
            code=errors.E_BAD_ARGS,
            hint=(
                "Escape special characters with a backslash, or set literal to find the text as"
                " it is."
            ),
        ) from None


async def _count(call: Call, rg: str, scope: Scope, left_out: LeftOut) -> None:
    """Count the files that are searched and those that are left out."""
    try:
        await list_files(call.processes, rg, scope, left_out.take)
    except ToolError:  # the search itself says what is wrong
        return
    left_out.complete = True


# --- what is told ---------------------------------------------------------------------------------


def _told(
    shown: Search, found: Search, settings: SearchSettings, place: Aim, pattern: Pattern, late: bool
) -> tuple[str, dict[str, Any]]:
    """Write what the model reads, and what faces get."""
    files = sorted(
        shown.files,
        key=lambda file: [part.encode("utf-8", "surrogateescape") for part in file.path.split("/")],
    )
    text, places = _written(files, settings.limit)
    data = {
        "matches": found.matches,
        "shown": len(places),
        "places": places,
        "searched": found.searched,
    }
    if late:
        advice = (
            "Search a folder of it (path), fewer files (glob), or for something simpler (literal)."
        )
        begin = (
            f"The search took longer than {settings.timeout:g} s and was ended; this is not all."
            f" {advice}\n"
        )
        return begin + (f"Found so far:\n{text}" if text else "Nothing was found so far."), data
    if not found.matches:
        return _nothing(found.searched or 0, place, pattern), data
    more = found.matches > found.most
    count = f"more than {found.most:,}" if more else f"{found.matches:,}"
    lines = "1 matching line" if found.matches == 1 else f"{count} matching lines"
    if len(places) == found.matches:
        return f"{lines} in {len(files)} file{'s' * (len(files) > 1)}\n{text}", data
    cut = (
        f"[The first {len(places)} of {count} matching lines are shown, in the order of the paths."
    )
    return (
        (
            f"{lines}\n{text}\n{cut} For the others narrow path or glob, or make the pattern more"
            " special.]"
        ),
        data,
    )


def _nothing(searched: int, place: Aim, pattern: Pattern) -> str:
    if not searched:
        return (
            f"No file was searched: in {place.name} there is none that path and glob mean."
            f" {_ways(place, pattern)}"
        )
    files = "1 file" if searched == 1 else f"{searched:,} files"
    return f"No match in {files} of {place.name}. {_ways(place, pattern)}"


def _ways(place: Aim, pattern: Pattern) -> str:
    if place.scope.ignored:
        ignored = "Version control folders and binary files are not searched"
    else:
        ignored = IGNORED
    if place.scope.max_size:
        size = f", files over {place.scope.max_size / 1e6:g} MB"
    else:
        size = ""
    tries = [] if pattern.ignore_case else ["ignore_case"]
    tries += (
        ["a wider path or glob"]
        if place.filters or place.scope.names or place.scope.base != "."
        else []
    )
    tries += [] if place.scope.ignored else ["include_ignored"]
    if "\\|" in pattern.source:
        tries.insert(0, "a|b for one of two (\\| is the character itself)")
    return f"{ignored}{size}. To try: {', '.join([*tries, 'a shorter pattern'])}."


def _written(files: list[FoundFile], limit: int) -> tuple[str, list[tuple[str, int]]]:
    """Write files with their lines, up to so many matches; give the places of these too."""
    out: list[str] = []
    places: list[tuple[str, int]] = []
    room = TEXT
    for file in files:
        if len(places) >= limit or room <= 0:
            break
        name = show(file.path)
        last = 0
        out.append(f"\n{name}" if out else name)
        for line in file.lines:
            if line.column >= 0:
                if len(places) >= limit or room <= 0:
                    break
                places.append((name, line.number))
            if last and line.number > last + 1:
                out.append("--")
            out.append(f"{line.number}{':' if line.column >= 0 else '-'}{cut(line)}")
            last = line.number
            room = room - len(out[-1])
    return "\n".join(out), places


def cut(line: FoundLine) -> str:
    """Return the text of a line, or of a long one the part around the match."""
    raw = line.text
    first = max(line.column, 0)
    begin = max(first - LINE, 0)  # bytes, before anything long is decoded
    text = raw[begin : first + 4 * LINE].decode(errors="replace").rstrip("\r")
    column = len(raw[begin:first].decode(errors="replace"))
    start = max(column - LINE // 3, 0) if begin or len(text) > LINE else 0
    piece = text[start : start + LINE]
    left = begin + start > 0
    right = start + LINE < len(text) or first + 4 * LINE < len(raw)
    return f"{'[…] ' * left}{piece}{f' [… {len(raw):,} bytes in all]' * right}"


def _brief(file: FoundFile) -> str:
    """Show a file as it is found: its first matching line, and how many more."""
    first = next(line for line in file.lines if line.column >= 0)
    more = f" (and {file.matches - 1} more)" if file.matches > 1 else ""
    return f"{show(file.path)}:{first.number}: {cut(first).strip()}{more}\n"
