"""The corpus contains calls of every built-in tool."""

from importlib.metadata import entry_points
from pathlib import Path

from hilum.events import CallStarted
from hilum.testing import open_bench
from hilum_replay.sessions.recorded_log import find_tool_name
from hilum_replay.sessions.recording import SESSION_FILE, load_recording

CORPUS = Path(__file__).parents[3] / "plugins/replay/hilum_replay/corpus"
# Interfaces and stores, which have no tools.
WITHOUT_TOOLS = {"cli", "models", "replay", "serve", "store", "terminal"}
# `use_skill` is only offered if the user trusts the project, which is part of the configuration.
# `guest_wait` is called only if a guest says nothing for ten seconds; `semantic_search` belongs to an
# optional package. The tools of language servers need a program that is not a part of hilum.
LANGUAGE_SERVERS = {"find_definition", "find_references", "list_symbols", "rename_symbol"}
NOT_CALLED = {"guest_wait", "semantic_search"} | LANGUAGE_SERVERS


async def test_the_corpus_contains_every_built_in_tool():
    called = {"find_tools", "call_tool"}
    for file in CORPUS.glob(f"*/{SESSION_FILE}"):
        for event in load_recording(file.parent).events:
            if isinstance(event, CallStarted):
                called.add(find_tool_name(event.call))
    names = {point.name for point in entry_points(group="hilum")} - WITHOUT_TOOLS
    async with open_bench(*sorted(names), faults=True) as bench:
        tools = set(bench.session.tools) - NOT_CALLED
    assert tools - called == set()
