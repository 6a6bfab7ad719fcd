"""What a guest's requests to its model may not contain."""

import pytest
from hilum_acp.guests.model_proxy import restrict_fields


def test_the_provider_runs_no_tools_and_contacts_no_servers():
    own = {"type": "function", "function": {"name": "read"}}
    fields = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi."}],
        "tools": [
            own,
            {"type": "mcp", "server_url": "https://example.org"},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ],
        "mcp_servers": [{"type": "url", "url": "https://example.org"}],
        "plugins": [{"id": "web"}],
    }
    kept = restrict_fields(fields)
    assert kept == {"model": "m", "messages": fields["messages"], "tools": [own]}


def test_the_price_is_not_chosen_by_the_guest():
    chosen = {"models": ["a", "b"], "service_tier": "priority", "background": True, "route": "x"}
    assert restrict_fields({"messages": [], **chosen}) == {"messages": []}


def test_tools_of_each_format_stay():
    anthropic = {"name": "read", "input_schema": {"properties": {"url": {"type": "string"}}}}
    responses = {"type": "function", "name": "read", "parameters": {}}
    gemini = {"functionDeclarations": [{"name": "read"}]}
    tools = [anthropic, responses, gemini]
    assert restrict_fields({"tools": [*tools, {"googleSearch": {}}]}) == {"tools": tools}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/?secret"}},
        {"type": "input_image", "image_url": "https://example.org/?secret"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/?secret"}},
        {"fileData": {"fileUri": "https://example.org/?secret"}},
        {"type": "input_file", "file_url": "http://example.org/?secret"},
    ],
)
@pytest.mark.parametrize("place", ["messages", "input", "contents"])
def test_the_provider_fetches_nothing(part, place):
    with pytest.raises(ValueError, match="another server"):
        restrict_fields({place: [{"role": "user", "content": [part]}]})


def test_data_of_the_programs_own_tools_is_not_judged():
    parts = [
        {"type": "tool_use", "name": "fetch", "input": {"url": "https://example.org"}},
        {"functionCall": {"name": "fetch", "args": {"url": "https://example.org"}}},
        {"functionResponse": {"name": "fetch", "response": {"url": "https://example.org"}}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    fields = {"messages": [{"role": "user", "content": parts}]}
    assert restrict_fields(fields) == fields
