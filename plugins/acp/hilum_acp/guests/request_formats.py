"""What a program's request to a model may contain, in each of the providers' formats.

The lists contain what coding agents send: text, inline images and documents, their own tools, and
options that change only how the model answers. Fields that change nothing for the program, such as
its statistics, are dropped. Everything else is refused: tools that the provider runs, files that it
fetches, what is stored in the account, and other models, servers and prices.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from hilum_acp.guests.request_filter import (
    IMAGES,
    PDF,
    Files,
    Rule,
    base64,
    by_type,
    complete,
    count,
    data,
    data_address,
    fields,
    flag,
    items,
    make_refusal,
    one_of,
    own_tools,
    scalar,
    schema,
    text,
    text_or,
    typed_data,
)

GEMINI_STREAM = ":streamGenerateContent"
# What agents say about themselves and their user, and what they ask for in vain: stored answers and
# another price.
_ABOUT = "model user metadata client_metadata safety_identifier store service_tier background"
# Entries that live longer are charged at a higher price, and `scope` shares them.
_CACHE = fields({"type": scalar}, "ttl scope")
_TEXTS = text_or(items(text))
_FUNCTION_NAME = fields({"name": text})
_IMAGE_ADDRESS = data_address(*IMAGES)
_IMAGE = fields({"url": _IMAGE_ADDRESS, "detail": scalar})


@attrs.frozen
class RequestFormat:
    """The rules of one format.

    Attributes:
        rule: The rule of the whole request.
        limits: The fields that limit the length of an answer, of which the server knows one.
        thinking: The limits for the thinking of a model, each as the name of an object and a field. An
            answer contains the thinking.
        answers: The field with the number of answers; empty if there is always one.
        config: The field that contains these fields; empty if they are in the request itself.
        fixed: Fields that every request gets.
        tool_options: The fields that are only allowed together with tools.
    """

    rule: Rule
    limits: tuple[str, ...]
    thinking: tuple[tuple[str, str], ...] = ()
    answers: str = ""
    config: str = ""
    fixed: dict[str, Any] = attrs.field(factory=dict)
    tool_options: tuple[str, ...] = ("tool_choice",)


def _tools_by_type(cases: dict[str, Rule], default: str = "") -> Rule:
    """Return a rule for a list of tools with types; others are run by the provider."""

    def choose(tool: dict[str, Any]) -> Rule | None:
        kind = tool.get("type", default)
        return cases.get(kind) if isinstance(kind, str) else None

    return own_tools(choose)


def _included(value: Any, place: str, files: Files) -> Any:
    """Pass the encrypted reasoning, and drop what belongs to tools of the provider."""
    listed = items(text)(value, place, files) or []
    return [name for name in listed if name == "reasoning.encrypted_content"]


def _image_address(value: Any, place: str, files: Files) -> Any:
    """Pass an inline image; some servers take its address alone."""
    if isinstance(value, str):
        return _IMAGE_ADDRESS(value, place, files)
    return _IMAGE(value, place, files)


# --- OpenAI chat completions, and compatible servers ----------------------------------------------

_CHAT_PART = by_type(
    {
        "text": fields({"type": scalar, "text": text, "cache_control": _CACHE}),
        "image_url": fields(
            {
                "type": scalar,
                "image_url": _image_address,
                "cache_control": _CACHE,
            }
        ),
        "file": fields(
            {
                "type": scalar,
                "file": fields({"filename": text, "file_data": data_address(PDF)}),
                "cache_control": _CACHE,
            }
        ),
        "refusal": fields({"type": scalar, "refusal": text}),
        # The reasoning of Mistral.
        "thinking": fields(
            {
                "type": scalar,
                "thinking": text_or(items(fields({"type": scalar, "text": text}))),
                "closed": flag,
            }
        ),
    }
)
_CHAT_CALL = fields(
    {
        "id": scalar,
        "type": scalar,
        "index": scalar,
        "function": fields({"name": text, "arguments": text}),
        "custom": fields({"name": text, "input": text}),
        "extra_content": fields({"google": fields({"thought_signature": text})}),
    }
)
_CHAT_MESSAGE = fields(
    {
        "role": text,
        "name": text,
        "content": text_or(items(_CHAT_PART)),
        "tool_calls": items(_CHAT_CALL),
        "tool_call_id": scalar,
        "reasoning": text,
        "reasoning_content": text,
        "reasoning_details": items(
            fields(
                dict.fromkeys(
                    ("type", "id", "format", "index", "text", "summary", "data", "signature"),
                    scalar,
                )
            )
        ),
        "refusal": text,
        "prefix": flag,
        "partial": flag,
        "cache_control": _CACHE,
    },
    "annotations provider_specific_fields",
)
_FUNCTION = fields(
    {
        "name": text,
        "description": text,
        "parameters": schema,
        "strict": flag,
    }
)
_CUSTOM_TOOL = {
    "name": text,
    "description": text,
    "format": fields(
        {
            "type": scalar,
            "syntax": text,
            "definition": text,
            "grammar": fields({"syntax": text, "definition": text}),
        }
    ),
}
_SCHEMA_FORMAT = {
    "type": scalar,
    "name": text,
    "description": text,
    "strict": flag,
    "schema": schema,
}
_OPENAI_CHOICE = text_or(
    fields(
        {
            "type": one_of("function", "custom", "allowed_tools", "auto", "none", "required"),
            "name": text,
            "mode": scalar,
            "function": _FUNCTION_NAME,
            "custom": _FUNCTION_NAME,
            "tools": items(fields({"type": scalar, "name": text, "function": _FUNCTION_NAME})),
        }
    )
)
_SAMPLING = dict.fromkeys(
    "temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty seed"
    " logprobs top_logprobs".split(),
    scalar,
)
_CHAT = RequestFormat(
    rule=fields(
        {
            **_SAMPLING,
            "messages": items(_CHAT_MESSAGE),
            "stream": flag,
            "stream_options": fields({"include_usage": flag, "include_obfuscation": flag}),
            "stop": _TEXTS,
            "max_tokens": count,
            "max_completion_tokens": count,
            "n": count,
            "tools": _tools_by_type(
                {
                    "function": fields(
                        {"type": scalar, "function": _FUNCTION, "cache_control": _CACHE}
                    ),
                    "custom": fields({"type": scalar, "custom": fields(_CUSTOM_TOOL)}),
                }
            ),
            "tool_choice": _OPENAI_CHOICE,
            "parallel_tool_calls": flag,
            "response_format": fields(
                {"type": scalar, "json_schema": fields(_SCHEMA_FORMAT), "schema": schema}
            ),
            "modalities": items(one_of("text")),
            "reasoning_effort": scalar,
            "reasoning": fields(
                dict.fromkeys(("effort", "summary", "max_tokens", "exclude", "enabled"), scalar)
            ),
            "verbosity": scalar,
            "prompt_cache_key": scalar,
            "cache_control": _CACHE,
            # Compatible servers.
            "thinking": fields({"type": scalar, "budget_tokens": scalar, "clear_thinking": scalar}),
            "enable_thinking": flag,
            "preserve_thinking": flag,
            "reasoning_split": flag,
            "tool_stream": flag,
            "chat_template_kwargs": fields(
                dict.fromkeys(
                    ("enable_thinking", "thinking", "preserve_thinking", "reasoning_effort"),
                    scalar,
                )
            ),
            "usage": fields({"include": flag}),
        },
        f"{_ABOUT} vl_high_resolution_images prompt_cache_retention",
    ),
    limits=("max_tokens", "max_completion_tokens"),
    thinking=(("reasoning", "max_tokens"), ("thinking", "budget_tokens")),
    answers="n",
    tool_options=("tool_choice", "parallel_tool_calls"),
)

# --- OpenAI responses -----------------------------------------------------------------------------

_RESPONSES_PART = by_type(
    {
        "input_text": fields({"type": scalar, "text": text}),
        "output_text": fields({"type": scalar, "text": text}, "annotations logprobs"),
        "input_image": fields({"type": scalar, "image_url": _IMAGE_ADDRESS, "detail": scalar}),
        "input_file": fields(
            {"type": scalar, "filename": text, "file_data": data_address(PDF), "detail": scalar}
        ),
        "refusal": fields({"type": scalar, "refusal": text}),
        "summary_text": fields({"type": scalar, "text": text}),
        "reasoning_text": fields({"type": scalar, "text": text}),
        "text": fields({"type": scalar, "text": text}),
    }
)
_RESPONSES_CONTENT = text_or(items(_RESPONSES_PART))
_ITEM = dict.fromkeys(("type", "id", "status", "call_id"), scalar)
_OUTPUT_ITEM = complete(fields({**_ITEM, "output": _RESPONSES_CONTENT}), "call_id", "output")
# An item that has only an id names one that is stored in the user's account.
_RESPONSES_ITEM = by_type(
    {
        "message": complete(
            fields(
                {**_ITEM, "role": text, "content": _RESPONSES_CONTENT, "phase": scalar},
                "end_turn metadata",
            ),
            "role",
            "content",
        ),
        "reasoning": complete(
            fields(
                {
                    **_ITEM,
                    "summary": items(_RESPONSES_PART),
                    "content": items(_RESPONSES_PART),
                    "encrypted_content": text,
                }
            ),
            one_of_these=("summary", "content", "encrypted_content"),
        ),
        "function_call": complete(
            fields({**_ITEM, "name": text, "arguments": text, "namespace": scalar}),
            "call_id",
            "name",
            "arguments",
        ),
        "function_call_output": _OUTPUT_ITEM,
        "custom_tool_call": complete(
            fields({**_ITEM, "name": text, "input": text}), "call_id", "name", "input"
        ),
        "custom_tool_call_output": _OUTPUT_ITEM,
        "compaction": complete(fields({**_ITEM, "encrypted_content": text}), "encrypted_content"),
    },
    default="message",
)
_RESPONSES = RequestFormat(
    rule=fields(
        {
            **_SAMPLING,
            "input": text_or(items(_RESPONSES_ITEM)),
            "instructions": text,
            "stream": flag,
            "stream_options": fields({"include_obfuscation": flag}),
            "max_output_tokens": count,
            "tools": _tools_by_type(
                {
                    "function": fields(
                        {
                            "type": scalar,
                            "name": text,
                            "description": text,
                            "parameters": schema,
                            "strict": flag,
                        },
                        "defer_loading output_schema",
                    ),
                    "custom": fields({"type": scalar, **_CUSTOM_TOOL}, "defer_loading"),
                }
            ),
            "tool_choice": _OPENAI_CHOICE,
            "parallel_tool_calls": flag,
            "reasoning": fields(
                dict.fromkeys(("effort", "summary", "generate_summary"), scalar), "context"
            ),
            "text": fields({"verbosity": scalar, "format": fields(_SCHEMA_FORMAT)}),
            "include": _included,
            "truncation": scalar,
            "prompt_cache_key": scalar,
        },
        f"{_ABOUT} prompt_cache_retention max_tool_calls",
    ),
    limits=("max_output_tokens",),
    # Without it, the provider stores the conversation in the user's account.
    fixed={"store": False},
    tool_options=("tool_choice", "parallel_tool_calls"),
)

# --- Anthropic messages ---------------------------------------------------------------------------

_BLOCK = {"type": scalar, "cache_control": _CACHE}
_ANTHROPIC_TEXT = fields({**_BLOCK, "text": text}, "citations")
_FILE_SOURCE = fields({"type": scalar, "media_type": scalar, "data": base64})
_IMAGE_SOURCE = typed_data(_FILE_SOURCE, "media_type", *IMAGES)
_ANTHROPIC_IMAGE = fields({**_BLOCK, "source": by_type({"base64": _IMAGE_SOURCE})})
_ANTHROPIC_DOCUMENT = fields(
    {
        **_BLOCK,
        "source": by_type(
            {
                "base64": typed_data(_FILE_SOURCE, "media_type", PDF),
                "text": fields({"type": scalar, "media_type": one_of("text/plain"), "data": text}),
            }
        ),
        "title": text,
        "context": text,
    },
    "citations",
)
_RESULT_BLOCK = by_type(
    {
        "text": _ANTHROPIC_TEXT,
        "image": _ANTHROPIC_IMAGE,
        "document": _ANTHROPIC_DOCUMENT,
    }
)
_ANTHROPIC_BLOCK = by_type(
    {
        "text": _ANTHROPIC_TEXT,
        "image": _ANTHROPIC_IMAGE,
        "document": _ANTHROPIC_DOCUMENT,
        "thinking": fields({**_BLOCK, "thinking": text, "signature": text}),
        "redacted_thinking": fields({**_BLOCK, "data": text}),
        "tool_use": fields({**_BLOCK, "id": scalar, "name": text, "input": data}, "caller"),
        "tool_result": fields(
            {
                **_BLOCK,
                "tool_use_id": scalar,
                "content": text_or(items(_RESULT_BLOCK)),
                "is_error": flag,
            }
        ),
    }
)
_ANTHROPIC = RequestFormat(
    rule=fields(
        {
            "messages": items(
                fields({"role": text, "content": text_or(items(_ANTHROPIC_BLOCK))}, "id")
            ),
            "system": text_or(items(by_type({"text": _ANTHROPIC_TEXT}))),
            "max_tokens": count,
            "stream": flag,
            "temperature": scalar,
            "top_p": scalar,
            "top_k": scalar,
            "stop_sequences": items(text),
            "tools": _tools_by_type(
                {
                    "custom": fields(
                        {
                            "type": scalar,
                            "name": text,
                            "description": text,
                            "input_schema": schema,
                            "strict": flag,
                            "cache_control": _CACHE,
                        },
                        "eager_input_streaming defer_loading input_examples allowed_callers",
                    )
                },
                default="custom",
            ),
            "tool_choice": fields(
                {"type": scalar, "name": text, "disable_parallel_tool_use": flag}
            ),
            "thinking": fields(
                {
                    "type": scalar,
                    "budget_tokens": scalar,
                    "display": scalar,
                    "block_binding": fields({"prefix_mismatch_behavior": scalar}),
                }
            ),
            "output_config": fields({"effort": scalar, "format": fields(_SCHEMA_FORMAT)}),
            "output_format": fields(_SCHEMA_FORMAT),
            "cache_control": _CACHE,
        },
        # Edits of the context need a beta header, which is not passed on.
        f"{_ABOUT} context_management betas",
    ),
    limits=("max_tokens",),
    thinking=(("thinking", "budget_tokens"),),
)

# --- Gemini generateContent -----------------------------------------------------------------------


def _to_camel_case(name: str) -> str:
    """Return the name of a field in the spelling of the lists; the API accepts both."""
    return re.sub(r"(?<=[a-z0-9])_([a-z])", lambda found: found[1].upper(), name)


def _gemini(allowed: dict[str, Rule], dropped: str = "") -> Rule:
    return fields(allowed, dropped, _to_camel_case)


_INLINE_DATA = typed_data(
    _gemini({"mimeType": scalar, "data": base64}, "displayName"), "mimeType", *IMAGES, PDF
)
_GEMINI_PART = _gemini(
    {
        "text": text,
        "thought": flag,
        "thoughtSignature": text,
        "inlineData": _INLINE_DATA,
        "functionCall": _gemini({"id": scalar, "name": text, "args": data}),
        "functionResponse": _gemini(
            {
                "id": scalar,
                "name": text,
                "response": data,
                "parts": items(_gemini({"inlineData": _INLINE_DATA})),
            }
        ),
    }
)
_GEMINI_CONTENT = _gemini({"role": text, "parts": items(_GEMINI_PART)})
_DECLARATION = _gemini(
    {
        "name": text,
        "description": text,
        "parameters": schema,
        "parametersJsonSchema": schema,
        "response": schema,
        "responseJsonSchema": schema,
    },
    "behavior",
)


def _choose_declarations(tool: dict[str, Any]) -> Rule | None:
    names = ("functionDeclarations", "function_declarations")
    return _declarations if any(tool.get(name) for name in names) else None


def _declarations(value: Any, place: str, files: Files) -> Any:
    """Pass the program's own functions, without the provider's tools beside them."""
    found = {_to_camel_case(name): item for name, item in value.items()}
    rule = items(_DECLARATION)
    inner = f"{place}.functionDeclarations"
    return {"functionDeclarations": rule(found["functionDeclarations"], inner, files)}


_GEMINI = RequestFormat(
    rule=_gemini(
        {
            "contents": items(_GEMINI_CONTENT),
            "systemInstruction": _GEMINI_CONTENT,
            "tools": own_tools(_choose_declarations),
            "toolConfig": _gemini(
                {
                    "functionCallingConfig": _gemini(
                        {"mode": scalar, "allowedFunctionNames": items(text)}
                    )
                }
            ),
            "safetySettings": items(
                _gemini({"category": scalar, "threshold": scalar, "method": scalar})
            ),
            "generationConfig": _gemini(
                {
                    **dict.fromkeys(
                        "temperature topP topK seed presencePenalty frequencyPenalty"
                        " responseMimeType responseLogprobs logprobs mediaResolution".split(),
                        scalar,
                    ),
                    "maxOutputTokens": count,
                    "candidateCount": count,
                    "stopSequences": items(text),
                    "responseSchema": schema,
                    "responseJsonSchema": schema,
                    "responseModalities": items(one_of("TEXT", "text")),
                    "thinkingConfig": _gemini(
                        dict.fromkeys(
                            ("includeThoughts", "thinkingBudget", "thinkingLevel"), scalar
                        )
                    ),
                }
            ),
        },
        f"{_ABOUT} labels",
    ),
    limits=("maxOutputTokens",),
    thinking=(("thinkingConfig", "thinkingBudget"),),
    answers="candidateCount",
    config="generationConfig",
    tool_options=("toolConfig",),
)

FORMATS = {
    "/chat/completions": _CHAT,
    "/responses": _RESPONSES,
    "/messages": _ANTHROPIC,
    GEMINI_STREAM: _GEMINI,
}
"""The formats by the ends of the paths to which their requests are sent."""


def restrict_request(request: Any, format_name: str, files: Files) -> dict[str, Any]:
    """Return the parts of a request that a format allows.

    Raises:
        RequestRefused: The request contains something else.
    """
    known = FORMATS.get(format_name)
    if known is None or not isinstance(request, dict):
        raise make_refusal("request", "is not a JSON object in a known format")
    kept: dict[str, Any] = known.rule(request, "", files)
    if not kept.get("tools"):
        # An empty list of tools is an error, and so are options without tools.
        for name in ("tools", *known.tool_options):
            kept.pop(name, None)
    kept.update(known.fixed)
    return kept
