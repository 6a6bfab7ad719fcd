"""The names of OpenTelemetry's GenAI conventions that hilum exports.

Nothing in these conventions is stable, and the constants in the package of the general conventions
are deprecated. All names are therefore in this table, which follows one version of
github.com/open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

import re

# First release of the conventions in their own repository.
VERSION = "0.1.0"

# --- attributes -----------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOKEN_MODALITY = "gen_ai.token.modality"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

# --- content --------------------------------------------------------------------------------------

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# --- operations -----------------------------------------------------------------------------------

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

# --- metrics --------------------------------------------------------------------------------------

INFERENCE_DURATION = "gen_ai.client.inference.duration"
INFERENCE_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
INFERENCE_INPUT_TOKENS = "gen_ai.client.inference.usage.input_tokens"
INFERENCE_OUTPUT_TOKENS = "gen_ai.client.inference.usage.output_tokens"
INFERENCE_CACHE_READ_TOKENS = "gen_ai.client.inference.usage.cache_read.input_tokens"
INFERENCE_CACHE_WRITE_TOKENS = "gen_ai.client.inference.usage.cache_write.input_tokens"
INFERENCE_REASONING_TOKENS = "gen_ai.client.inference.usage.reasoning.output_tokens"
INVOKE_AGENT_DURATION = "gen_ai.invoke_agent.duration"
EXECUTE_TOOL_DURATION = "gen_ai.execute_tool.duration"
# The names before version 0.1.0, which existing dashboards read.
TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
OPERATION_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"

SECONDS_BUCKETS = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]  # fmt: skip
AGENT_SECONDS_BUCKETS = [
    0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6,
]  # fmt: skip
TOKENS_BUCKETS = [
    1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
]  # fmt: skip

# --- values ---------------------------------------------------------------------------------------

# hilum's names of providers, where those of the conventions are different.
_PROVIDERS = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
STOP_REASONS = {
    "end": "stop",
    "calls": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
}


# What makes the names of sub-agents unique within a session.
_AGENT_ID = re.compile(r"-[0-9a-f]{12}$")


def general_name(agent: str) -> str:
    """Return the name of an agent without the id of its run.

    Receivers store each combination of a metric's attributes, and group spans by their names.
    """
    return _AGENT_ID.sub("", agent)


def split_model(name: str) -> tuple[str, str]:
    """Return the provider, by its name in the conventions, and the model of ``provider/model``."""
    provider, slash, model = name.partition("/")
    if not slash:
        return "unknown", name
    return _PROVIDERS.get(provider, provider), model
