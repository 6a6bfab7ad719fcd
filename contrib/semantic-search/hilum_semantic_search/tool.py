"""The tool ``semantic_search``."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from hilum import Call, Output, StoreError, ToolError, errors, tool
from hilum_search import show

from hilum_semantic_search import lazy
from hilum_semantic_search.session_index import SearchOutcome, SessionIndex
from hilum_semantic_search.settings import SemanticSearchSettings


@tool(risk="read", effect="pure", reads="path")
async def semantic_search(
    call: Call,
    query: str,
    path: str = ".",
    limit: Annotated[int, msgspec.Meta(ge=0, le=50)] = 0,
) -> Output:
    """Find functions, classes and sections by what they do, if you do not know their names.

    Returns places ("src/app.py:12-40 Name") with their lines ("12:text"), best first. Ranks by words
    in identifiers, comments and text (BM25); by meaning only if the user has switched embeddings on.
    The first line says which. For known names or exact text, search_files is better.

    Args:
        query: What the code does, in its probable words: "retry a failed request with a delay".
        path: Folder or file, relative to the workspace.
        limit: Maximum number of results; 0 for the default.
    """
    if not query.strip():
        raise ToolError(
            "The query is empty.", code=errors.E_BAD_ARGS, hint="Describe what the code does."
        )
    index = call.session.plugin(SessionIndex)
    if index is None:
        raise ToolError(
            "The plugin `semantic-search` is off in this session.", hint="Use search_files."
        )
    settings = call.session.settings(SemanticSearchSettings)
    below = _find_folder(call, path)
    try:
        outcome = await index.search(query, below, limit or settings.limit)
    except StoreError as error:
        # The cache folder is the user's matter, and no failure of this plugin.
        raise ToolError(error.message, code=error.code, hint=error.hint) from None
    return _make_output(outcome, settings.max_characters, below)


def _find_folder(call: Call, path: str) -> str:
    """Return a path relative to the root of the workspace; empty for the root.

    Raises:
        ToolError: The path does not exist, or the index does not cover it.
    """
    place = call.workspace.resolve(path or ".", must_exist=True)
    root = call.workspace.root
    if not place.is_relative_to(root):
        raise ToolError(
            f"{path!r} is not indexed: the index covers only {str(root)!r}.",
            code=errors.E_BAD_ARGS,
            hint="Use search_files there.",
        )
    relative = place.relative_to(root).as_posix()
    return "" if relative == "." else relative


def _make_output(outcome: SearchOutcome, max_characters: int, below: str) -> Output:
    result = outcome.result
    text, shown = lazy.excerpts.format_hits(result.hits, result.words, max_characters)
    rows = [_summarize(outcome, len(shown), below)]
    if text:
        rows.append(text)
    if len(shown) < len(result.hits):
        rows.append(f"[{len(result.hits) - len(shown)} more results were too long to show.]")
    rows += [f"[{notice}]" for notice in outcome.notices]
    data = {
        "results": [
            {
                "path": show(hit.path),
                "first": hit.first,
                "last": hit.last,
                "symbol": hit.symbol,
                "score": round(hit.score, 4),
            }
            for hit in shown
        ],
        "ranking": "words and embeddings" if result.by_meaning else "words",
        "complete": outcome.complete,
    }
    return Output("\n".join(rows), data=data)


def _summarize(outcome: SearchOutcome, count: int, below: str) -> str:
    """Return the first line: what was found, and how it was ranked."""
    where = f" in {show(below)}" if below else ""
    if count:
        results = "1 result" if count == 1 else f"{count} results"
        found = f"{results}{where}, best first"
    else:
        found = (
            f"Nothing was found{where}. Use other words, in the language of the code and its"
            " comments, or search_files"
        )
    if not outcome.result.by_meaning:
        ranking = "Ranked by words only (BM25), without embeddings."
    elif outcome.covered < 0.995:
        share = math.floor(outcome.covered * 100)
        ranking = (
            f"Ranked by words (BM25) and embeddings, which {share} % of the chunks have so far."
        )
    else:
        ranking = "Ranked by words (BM25) and embeddings."
    if outcome.complete:
        return f"{found}. {ranking}"
    progress = f"{outcome.done:,} of {outcome.total:,} files" if outcome.total else "listing files"
    return f"{found}. {ranking} The index is still being built ({progress}); search again later."
