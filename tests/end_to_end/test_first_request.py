"""What the first request of a run holds, with everything installed: no tool without a use, and no
word too many.
"""

import json

import trio
from hilum import estimate

OFFERED = {
    "read_file", "write_file", "edit_file", "delete_file", "list_directory", "search_files", "glob_search", "read_lints",
    "run_terminal_cmd", "web_search", "web_fetch", "todo_write", "ask_question", "task", "find_tools", "call_tool",
}  # fmt: skip
DEFERRED = {
    "generate_image": "images are off",
    "recall_result": "no result was shortened yet",
    "read_service": "no service was started",
    "write_service": "no service was started",
    "stop_service": "no service was started",
    "list_services": "no service was started",
    "handover": "there is nobody to hand over to",
    "get_agent_result": "no agent was started",
    "multi_edit": "edit_file does the same",
    "browser_use": "few tasks need a browser",
}
MAX_TOKENS = 4_300
"""For prompt and tools, by hilum's own estimate, which is a fifth above the tokenizers'.

The true figure is 3,500.
"""


async def test_tools_without_a_use_are_deferred_and_the_prompt_is_short(cli):
    """Deferred tools are found through find_tools, which names them."""
    await trio.run_process(["git", "init", "-q", str(cli.workspace)])
    async with cli.model("Done.") as server:
        await cli("run", "hi", "--approve", "auto")
    (request,) = server.requests
    body = json.loads(request.body)
    assert set(request.tools) == OFFERED
    named = next(
        tool["function"]["description"]
        for tool in body["tools"]
        if tool["function"]["name"] == "find_tools"
    )
    assert [name for name in DEFERRED if name not in named] == []
    text = body["messages"][0]["content"] + json.dumps(
        body["tools"], ensure_ascii=False, separators=(",", ":")
    )
    assert estimate(text) <= MAX_TOKENS


async def test_a_read_only_run_offers_and_explains_what_only_reads(cli):
    """Tools that change something are missing, and so is the advice on them."""
    async with cli.model("Done.") as server:
        await cli("run", "hi", "--approve", "readonly")
    (request,) = server.requests
    prompt = json.loads(request.body)["messages"][0]["content"]
    assert not {"write_file", "edit_file", "delete_file", "run_terminal_cmd"} & set(request.tools)
    assert "old_string" not in prompt
    assert "read-only" in prompt or "readonly" in prompt
