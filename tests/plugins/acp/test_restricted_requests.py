"""What a guest's requests to its model may contain."""

import json
import re

import msgspec
import pytest
from hilum.models import ModelInfo
from hilum_acp.guests.model_proxy import ModelProxy
from hilum_acp.guests.request_filter import Files, RequestRefused
from hilum_acp.guests.request_formats import FORMATS, restrict_request
from hilum_models.failures import Endpoint
from hilum_models.gateway import HttpModel
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.models.test_model_requests import conversation, encoded, wire_of

CHAT, RESPONSES, MESSAGES, GEMINI = FORMATS
ADDRESS = "https://example.org/?secret"
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
VIDEO = "data:video/mp4;base64,AAAA"
SVG = "data:image/svg+xml;base64,AAAA"


def restrict(name, request):
    return restrict_request(request, name, Files())


def find_names(value):
    """Yield the names of all fields, without those of the program's own data."""
    if isinstance(value, list):
        for item in value:
            yield from find_names(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if not is_own_data(name, value):
                yield from find_names(item)


def is_own_data(name, place):
    """Return whether a field contains data that only the program's own tools read."""
    return name in OWN_DATA or (name == "input" and place.get("type") == "tool_use")


# --- what coding agents send ----------------------------------------------------------------------

TOOL_SCHEMA = {"type": "object", "properties": {"url": {"type": "string", "default": ADDRESS}}}
QWEN_CODE = {
    "model": "theirs",
    "messages": [
        {
            "role": "system",
            "content": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": f"Read {ADDRESS}"},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "auto"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "fetch", "arguments": f'{{"url":"{ADDRESS}"}}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Found."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "fetch", "description": "D", "parameters": TOOL_SCHEMA},
            "cache_control": {"type": "ephemeral"},
        }
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.2,
    "max_tokens": 100,
    "n": 2,
    "reasoning": {"effort": "high"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    "enable_thinking": True,
    "preserve_thinking": True,
    "metadata": {"sessionId": "s", "promptId": "p"},
    "user": "u",
    "store": False,
    "vl_high_resolution_images": True,
}
CODEX = {
    "model": "theirs",
    "instructions": "I",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "T"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "S"}],
            "content": None,
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": "*** Begin"},
        {
            "type": "custom_tool_call_output",
            "call_id": "d",
            "output": [{"type": "input_text", "text": "done"}],
        },
        {"role": "assistant", "content": "Done.", "phase": "final_answer"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "parameters": TOOL_SCHEMA, "strict": False},
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "D",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
        },
        {"type": "web_search", "external_web_access": True},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "service_tier": "priority",
    "client_metadata": {"x": "y"},
    "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "a", "schema": {}}},
    "previous_response_id": None,
}
CLAUDE_CODE = {
    "model": "theirs",
    "max_tokens": 32_000,
    "system": [
        {"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "T", "cache_control": {"type": "ephemeral"}},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                },
                {
                    "type": "document",
                    "source": {
                        "type": "base64",
                        "media_type": "application/pdf",
                        "data": "JVBERi0=",
                    },
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "c2ln"},
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "WebFetch",
                    "input": {"url": ADDRESS, "source": {"type": "url", "url": ADDRESS}},
                    "caller": {"type": "direct"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "R"}],
                }
            ],
        },
    ],
    "tools": [
        {
            "name": "WebFetch",
            "description": "D",
            "input_schema": TOOL_SCHEMA,
            "eager_input_streaming": True,
        },
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "metadata": {"user_id": "u"},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "temperature": 1,
    "stream": True,
}
GEMINI_CLI = {
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "T"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {
                    "functionCall": {"id": "f", "name": "web_fetch", "args": {"url": ADDRESS}},
                    "thoughtSignature": "c2ln",
                },
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "f",
                        "name": "web_fetch",
                        "response": {"output": {"fileUri": ADDRESS}},
                    }
                }
            ],
        },
    ],
    "systemInstruction": {"role": "user", "parts": [{"text": "S"}]},
    "tools": [
        {"functionDeclarations": [{"name": "web_fetch", "parametersJsonSchema": TOOL_SCHEMA}]},
        {"googleSearch": {}},
        {"urlContext": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {
        "temperature": 0,
        "topP": 1,
        "maxOutputTokens": 100,
        "candidateCount": 1,
        "responseMimeType": "application/json",
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
}
REQUESTS = {CHAT: QWEN_CODE, RESPONSES: CODEX, MESSAGES: CLAUDE_CODE, GEMINI: GEMINI_CLI}
# The fields that only the program or the model reads.
OWN_DATA = ("input_schema", "parameters", "parametersJsonSchema", "schema", "args", "response")
ABOUT = ("model", "user", "metadata", "client_metadata", "service_tier", "context_management")


@pytest.mark.parametrize("name", FORMATS)
def test_what_coding_agents_send_passes(name):
    request = REQUESTS[name]
    kept = restrict(name, request)
    dropped = {*ABOUT, "store", "vl_high_resolution_images", "previous_response_id"}
    assert set(request) - set(kept) <= dropped
    for field in ("messages", "input", "contents", "system", "systemInstruction"):
        if field in request:
            expected = json.dumps(request[field]).replace(', "ttl": "1h"', "")
            expected = re.sub(r', "caller": {[^}]*}', "", expected)
            assert kept[field] == json.loads(expected)
    # What has passed once, passes again.
    assert restrict(name, kept) == kept


def test_the_provider_runs_no_tools():
    for name, request in REQUESTS.items():
        tools = msgspec.json.encode(restrict(name, request)["tools"])
        assert b"arch" not in tools
        assert b"urlContext" not in tools
        assert TOOL_SCHEMA in list(walk(msgspec.json.decode(tools)))


def walk(value):
    yield value
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, list | dict):
        for item in inner:
            yield from walk(item)


def test_options_of_tools_are_dropped_with_the_last_tool():
    tools = [{"type": "web_search"}]
    request = {"messages": [], "tools": tools, "tool_choice": "auto", "parallel_tool_calls": True}
    assert restrict(CHAT, request) == {"messages": []}
    gemini = {"contents": [], "tools": [{"googleSearch": {}}], "toolConfig": {}}
    assert restrict(GEMINI, gemini) == {"contents": []}


def test_answers_are_not_stored_in_the_users_account():
    assert restrict(RESPONSES, {"input": "Hi", "store": True})["store"] is False
    assert "store" not in restrict(CHAT, {"messages": [], "store": True})


def test_gemini_takes_both_spellings_but_only_one_of_them():
    file = {"inline_data": {"mime_type": "image/png", "data": "QQ"}}
    snake = {"system_instruction": {"parts": [file]}}
    file = {"inlineData": {"mimeType": "image/png", "data": "QQ"}}
    camel = {"systemInstruction": {"parts": [file]}}
    assert restrict(GEMINI, snake) == camel
    with pytest.raises(RequestRefused, match="given twice"):
        restrict(GEMINI, {**snake, **camel})


@pytest.mark.parametrize(
    ("name", "api"),
    [(CHAT, "chat"), (RESPONSES, "responses"), (MESSAGES, "anthropic"), (GEMINI, "gemini")],
)
@pytest.mark.parametrize("options", [{}, {"effort": "high", "max_output": 100}])
def test_nothing_of_what_hilum_itself_sends_is_changed(name, api, options):
    request = encoded(wire_of(api, **options), conversation(api))
    kept = restrict(name, request)
    request.pop("model", None)
    assert kept == request


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place", "part"),
    [
        (CHAT, "image_url", {"type": "image_url", "image_url": {"url": ADDRESS}}),
        (CHAT, "image_url", {"type": "image_url", "image_url": ADDRESS}),
        (
            CHAT,
            "image_url",
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,http://x"}},
        ),
        (CHAT, "file_data", {"type": "file", "file": {"file_data": ADDRESS}}),
        (CHAT, "file_id", {"type": "file", "file": {"file_id": "file-1"}}),
        (CHAT, "video_url", {"type": "video_url", "video_url": ADDRESS}),
        (CHAT, "video", {"type": "video", "video": [ADDRESS]}),
        (CHAT, "video", {"type": "text", "text": "", "video": [ADDRESS]}),
        (CHAT, "input_audio", {"type": "input_audio", "input_audio": {"data": ADDRESS}}),
        (RESPONSES, "image_url", {"type": "input_image", "image_url": ADDRESS}),
        (RESPONSES, "file_url", {"type": "input_file", "file_url": ADDRESS}),
        (RESPONSES, "file_id", {"type": "input_image", "image_url": PNG, "file_id": "f"}),
        (MESSAGES, "url", {"type": "image", "source": {"type": "url", "url": ADDRESS}}),
        (MESSAGES, "file", {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        (MESSAGES, "data", {"type": "image", "source": {"type": "base64", "data": ADDRESS}}),
        (MESSAGES, "server_tool_use", {"type": "server_tool_use", "input": {}}),
        (GEMINI, "fileData", {"fileData": {"fileUri": ADDRESS}}),
        (GEMINI, "file_data", {"file_data": {"file_uri": ADDRESS}}),
        (GEMINI, "data", {"inlineData": {"data": ADDRESS}}),
    ],
)
def test_the_provider_fetches_nothing(name, place, part):
    check_refused(name, place, part)


def check_refused(name, place, part):
    """Check that a part of a message is refused, with its place or reason in the error."""
    messages = {"role": "user", "content": [part]}
    request = {"messages": [messages]}
    if name == RESPONSES:
        request = {"input": [messages]}
    elif name == GEMINI:
        request = {"contents": [{"parts": [part]}]}
    with pytest.raises(RequestRefused, match=place):
        restrict(name, request)


def source(kind, media_type, **more):
    """Return a part with a file in Anthropic's format."""
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, **more}}


@pytest.mark.parametrize(
    ("name", "place", "part"),
    [
        (CHAT, "image_url.url` has", {"type": "image_url", "image_url": {"url": VIDEO}}),
        (CHAT, "image_url` has", {"type": "image_url", "image_url": SVG}),
        (CHAT, "image_url` has", {"type": "image_url", "image_url": PDF}),
        (CHAT, "file_data` has", {"type": "file", "file": {"file_data": VIDEO}}),
        (RESPONSES, "image_url` has", {"type": "input_image", "image_url": VIDEO}),
        (RESPONSES, "file_data` has", {"type": "input_file", "file_data": VIDEO}),
        (MESSAGES, "media_type` has", source("image", "application/pdf", data="AAAA")),
        (MESSAGES, "media_type` has", source("document", "http://x", data="AAAA")),
        (MESSAGES, "media_type` must", source("image", ["image/png"], data="AAAA")),
        (MESSAGES, "data` is missing", source("image", "image/png")),
        (GEMINI, "mimeType` has", {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}}),
        (GEMINI, "mimeType` has", {"inline_data": {"mime_type": "video/mp4", "data": "AAAA"}}),
        (GEMINI, "mimeType` has", {"inlineData": {"data": "AAAA"}}),
    ],
)
def test_only_images_and_pdf_files_pass(name, place, part):
    check_refused(name, place, part)


@pytest.mark.parametrize(
    "item",
    [
        {"id": "msg_123"},
        {"id": "msg_123", "role": None, "content": None},
        {"id": "msg_123", "type": "message", "role": "assistant"},
        {"id": "rs_123", "type": "reasoning", "summary": []},
        {"id": "fc_123", "type": "function_call"},
        {"id": "fc_123", "type": "function_call_output", "call_id": "c"},
        {"id": "c_123", "type": "custom_tool_call", "call_id": "c", "name": "a"},
        {"id": "cmp_123", "type": "compaction"},
    ],
)
def test_an_item_that_is_stored_in_the_account_cannot_be_named(item):
    with pytest.raises(RequestRefused, match=r"input\[0\].*(is missing|has none)"):
        restrict(RESPONSES, {"input": [item]})


@pytest.mark.parametrize("name", FORMATS)
def test_other_fields_are_refused_by_name(name):
    fields = """
    search_parameters enable_search web_search web_search_options connectors documents plugins
    mcp_servers container fallbacks models route preset extra_body inference_geo serviceTier speed
    audio prediction api_base api_key base_url previous_response_id conversation prompt
    cachedContent cached_content functions type thinking_budget num_retries guardrails
    """.split()
    for field in fields:
        with pytest.raises(RequestRefused, match=f"`{field}` is not among"):
            restrict(name, {**REQUESTS[name], field: {"x": [ADDRESS]}})


@pytest.mark.parametrize(
    ("name", "fields", "place"),
    [
        (CHAT, {"modalities": ["text", "audio"]}, r"modalities\[1\]"),
        (CHAT, {"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        (CHAT, {"n": "50"}, "n"),
        (CHAT, {"n": 50.0}, "n"),
        (CHAT, {"n": True}, "n"),
        (CHAT, {"max_tokens": "5"}, "max_tokens"),
        (CHAT, {"max_tokens": -1}, "max_tokens"),
        (CHAT, {"max_output_tokens": 1}, "max_output_tokens"),
        (CHAT, {"generationConfig": {"maxOutputTokens": 1}}, "generationConfig"),
        (CHAT, {"messages": {"a": 1}}, "messages"),
        (RESPONSES, {"max_tokens": 1}, "max_tokens"),
        (RESPONSES, {"background": [], "input": [{"type": "item_reference", "id": "x"}]}, "type"),
        (GEMINI, {"generationConfig": {"responseModalities": ["IMAGE"]}}, "responseModalities"),
        (GEMINI, {"generationConfig": {"speechConfig": {"a": 1}}}, "speechConfig"),
        (MESSAGES, {"tools": [{"name": "a", "input_schema": {"$ref": ADDRESS}}]}, "ref"),
    ],
)
def test_values_of_known_fields_are_checked(name, fields, place):
    with pytest.raises(RequestRefused, match=place):
        restrict(name, {**REQUESTS[name], **fields})


@pytest.mark.parametrize("request_", [None, 1, "text", [], [{}]])
def test_a_request_that_is_no_object_is_refused(request_):
    with pytest.raises(RequestRefused):
        restrict(CHAT, request_)


# --- whatever is added ----------------------------------------------------------------------------

NAMES = st.sampled_from(
    "type url image_url file_url fileUri file_data data source input content parts tools text n"
    " max_tokens maxOutputTokens role video documents search arguments extra".split()
) | st.text(max_size=8)
VALUES = st.recursive(
    st.sampled_from(
        [ADDRESS, "tool_use", "text", "image", "url", "function", "base64", 1, 2**70, None, True]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def list_places(value):
    """Return all objects and lists in a request."""
    return [each for each in walk(value) if isinstance(each, dict | list)]


@st.composite
def changed_requests(draw):
    """Return a format, and a request of an agent in which a few values are added or replaced."""
    name = draw(st.sampled_from(list(FORMATS)))
    request = json.loads(json.dumps(REQUESTS[name]))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list_places(request)))
        value = draw(VALUES)
        if isinstance(place, dict):
            place[draw(NAMES | st.sampled_from(sorted(place) or ["type"]))] = value
        else:
            place.append(value)
    return name, request


@given(changed_requests())
def test_no_unknown_field_and_no_address_reaches_the_provider(changed):
    name, request = changed
    try:
        kept = restrict(name, request)
    except RequestRefused:
        return
    known = set(find_names(restrict(name, REQUESTS[name])))
    assert set(find_names(kept)) <= known | KNOWN
    check_addresses(kept)


# Fields that the requests above do not have.
KNOWN = {
    *("url", "image_url", "file_data", "source", "n", "max_tokens", "role", "data", "type"),
    *("strict", "store", "arguments", "text", "content", "parts", "input", "tools", "title"),
}


def check_addresses(value):
    """Check that addresses are only in texts for the model, where nobody fetches them."""
    if isinstance(value, list):
        for item in value:
            check_addresses(item)
        return
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if name == "source":
            assert item is None or item["type"] in ("base64", "text")
        if name in ("url", "image_url", "file_data") and isinstance(item, str):
            assert item.startswith("data:")
        if name == "data" and isinstance(item, str) and value.get("type") == "base64":
            assert ADDRESS not in item
        if not is_own_data(name, value):
            check_addresses(item)


# --- over HTTP ------------------------------------------------------------------------------------

HOSTILE = """
user = {"role": "user"}
for more in (
    {"messages": [{**user, "content": [{"type": "file", "file": {"file_data": "http://x/a.pdf"}}]}]},
    {"messages": [{**user, "content": [{"type": "video_url", "video_url": "http://x/a.mp4"}]}]},
    {"type": "tool_use", "input": [{"content": [{"image_url": "http://x"}]}]},
    {"search_parameters": {"mode": "on"}},
    {"fallbacks": ["other"]},
    {"previous_response_id": "x"},
    {"messages": "[" * 2_000},
):
    print(call_model("Hi", **more))
body = b"[" * 100_000
request = urllib.request.Request(
    os.environ["GUEST_MODEL_URL"] + "/v1/chat/completions",
    body,
    {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


async def test_a_guest_learns_which_field_is_refused(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.execute(f"import urllib.request, urllib.error\n{HOSTILE}")
        assert guest.models.count == 0
        lines = guest.said.splitlines()
        assert all(line.startswith(("(400, ", "400 ")) for line in lines)
        places = (
            "file_data video_url type search_parameters fallbacks previous_response_id messages"
        )
        for place, line in zip(places.split(), lines, strict=False):
            assert place in line
        assert "nested too deeply" in lines[-1]


async def test_what_an_agent_sends_reaches_the_provider(open_guest):
    more = {name: value for name, value in QWEN_CODE.items() if name != "model"}
    code = f"print(call_model('', **json.loads({json.dumps(more)!r}))[0])"
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said == "200\n"
        (body,) = map(json.loads, guest.models.bodies)
        assert body["messages"] == QWEN_CODE["messages"]
        assert body["model"] == "priced"
        assert "metadata" not in body


async def test_a_request_that_only_counts_tokens_has_no_limit():
    endpoint = Endpoint("anthropic", "claude", "key")
    info = ModelInfo("anthropic/claude")
    url = "https://example.org/v1/messages"
    model = HttpModel(info, None, url, {}, endpoint, None, None)
    proxy = ModelProxy(None, model, None, lambda: None)
    body = json.dumps({"messages": [], "system": "S", "max_tokens": 5}).encode()
    counted, _ = proxy.prepare_body(body, counts_only=True)
    assert json.loads(counted) == {"messages": [], "system": "S", "model": "claude"}
    answered, size = proxy.prepare_body(body)
    assert json.loads(answered)["max_tokens"] == size.output == 5
