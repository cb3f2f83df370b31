"""The names of OpenTelemetry's conventions that spans use, as they are in one version of them.

All of `gen_ai.*` is still in development there and may be renamed: what we send changes only when this table does.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.41.0"
"""The version of the semantic conventions that these names are from."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"

OPERATION: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"

PROVIDER: Final = "gen_ai.provider.name"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SESSION_NAME: Final = "stator.session.name"
CONTENT: Final = frozenset(
    {TOOL_ARGUMENTS, TOOL_RESULT, INPUT_MESSAGES, OUTPUT_MESSAGES, SESSION_NAME}
)
"""Attributes that hold what people and tools wrote; sent on request only. A recorded session is named after its first
prompt."""

PROVIDERS: Final = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
"""By the form of a response, whose it is. Others copy the form of Chat Completions."""
UNKNOWN_PROVIDER: Final = "unknown"
SERVICE: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
