"""Reading a provider's response: attribute access, plain data, dialects, requests, usage, text."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given

from model.conversations import response
from stator.errors import BadType
from stator.model.values import canon
from stator.model.window.reply import (
    Reply,
    Request,
    dialect,
    plain_reply,
    reported_usage,
    requests,
    text_of,
    usage_of,
)
from strategies import foreign_values, plain_values


class TestReply:
    def test_a_reply_has_the_attributes_of_the_sdk_object(self) -> None:
        reply = Reply(response("anthropic", "hi", ("toolu_1", "read", {"path": "a"})))
        assert reply.stop_reason == "tool_use"
        assert reply.content[1].input.path == "a"
        chat = Reply(response("openai-chat", "hi", ("c", "read", "{}")))
        assert chat.choices[0].message.tool_calls[0].function.name == "read"

    def test_a_reply_equals_its_dict(self) -> None:
        plain = response("openai", "hi")
        reply = Reply(plain)
        assert reply == plain
        assert reply["output"] == plain["output"]
        assert json.dumps(reply) == json.dumps(plain)
        assert canon.dumps(reply) == canon.dumps(plain)

    def test_a_missing_key_raises_attribute_error(self) -> None:
        reply = Reply({})
        with pytest.raises(AttributeError, match="the response has no 'tool_calls'"):
            _ = reply.tool_calls
        assert not hasattr(reply, "content")

    def test_a_property_that_the_sdk_computes_is_available(self) -> None:
        assert Reply(response("openai", "hi")).output_text == "hi"

    def test_a_copied_or_pickled_reply_has_the_same_attributes(self) -> None:
        reply = Reply({"a": [{"b": 1}]})
        for same in (copy.copy(reply), copy.deepcopy(reply), pickle.loads(pickle.dumps(reply))):
            assert same == reply
            assert same.a[0].b == 1


class Block(msgspec.Struct):
    text: str
    type: str = "text"


@dataclass
class Made:
    """A response as a dataclass."""

    content: list[Block] = field(default_factory=list)


class Sdk:
    """An SDK's object with pydantic's `model_dump`, the only method we use."""

    def model_dump(self, *, mode: str, by_alias: bool, warnings: bool) -> dict[str, Any]:
        assert (mode, by_alias, warnings) == ("json", True, False)
        return {"choices": [{"message": {"role": "assistant", "tool_calls": None}}]}


class TestPlain:
    def test_null_fields_are_kept_as_none(self) -> None:
        assert Reply(plain_reply(Sdk())).choices[0].message.tool_calls is None

    def test_nested_dataclasses_and_structs_become_plain_data(self) -> None:
        assert plain_reply(Made([Block("hi")])) == {"content": [{"text": "hi", "type": "text"}]}
        assert plain_reply({"content": (Block("hi"),)}) == {
            "content": [{"text": "hi", "type": "text"}]
        }

    def test_a_text_response_stays_text(self) -> None:
        assert plain_reply("hi") == "hi"

    def test_a_reply_becomes_plain_data_again(self) -> None:
        plain = plain_reply(Reply({"a": {"b": 1}}))
        assert type(plain) is type(plain["a"]) is dict

    def test_an_object_that_is_no_response_is_refused(self) -> None:
        with pytest.raises(BadType, match="not a response: object"):
            plain_reply(object())


class TestDialect:
    @pytest.mark.parametrize("spoken", ["anthropic", "openai", "openai-chat", "plain"])
    def test_the_dialect_is_detected_from_the_shape(self, spoken: str) -> None:
        assert dialect(response(spoken, "hi", ("c", "read", {}))) == spoken

    def test_a_bare_chat_message_is_the_chat_dialect(self) -> None:
        assert dialect({"role": "assistant", "content": "hi"}) == "openai-chat"

    @pytest.mark.parametrize("plain", [None, 3, [], {}, {"content": "hi"}])
    def test_an_unknown_shape_is_the_plain_dialect(self, plain: Any) -> None:
        assert dialect(plain) == "plain"


class TestRequests:
    @pytest.mark.parametrize("spoken", ["anthropic", "openai", "openai-chat"])
    def test_tool_requests_are_read_in_order(self, spoken: str) -> None:
        said = response(spoken, "so", ("c1", "read", {"path": "a"}), ("c2", "pay", {}))
        found = [(r.index, r.id, r.name, r.arguments, r.error) for r in requests(said)]
        assert found == [(0, "c1", "read", {"path": "a"}, ""), (1, "c2", "pay", {}, "")]

    @pytest.mark.parametrize("text", ['{"a": ', "[1]", "7", '{"a": NaN}', "[" * 5000])
    def test_arguments_that_are_not_json_are_kept_with_an_error(self, text: str) -> None:
        (request,) = requests(response("openai", "", ("c", "read", text)))
        assert request.error.startswith("the arguments are not")
        assert (request.arguments, request.raw) == ({}, text)

    def test_missing_arguments_are_an_empty_dict(self) -> None:
        (request,) = requests(response("openai-chat", "", ("c", "read", "")))
        assert (request.arguments, request.error) == ({}, "")

    def test_free_text_becomes_the_argument_named_input(self) -> None:
        custom = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
        (request,) = requests({"role": "assistant", "tool_calls": [custom]})
        assert request == Request(0, "c", "sh", {"input": "ls"}, raw="ls", custom=True)

    def test_a_call_of_the_providers_own_tool_is_no_request(self) -> None:
        assert (
            requests({"content": [{"type": "server_tool_use", "id": "s", "name": "web_search"}]})
            == []
        )

    @given(plain_values | foreign_values)
    def test_a_malformed_response_never_raises(self, value: Any) -> None:
        keys = ("content", "output", "choices", "tool_calls", "usage")
        for plain in (value, *({key: value} for key in keys), *({key: [value]} for key in keys)):
            requests(plain)
            text_of(plain)
            usage_of(plain)


class TestUsage:
    def test_anthropic_counts_cached_tokens_separately_from_input(self) -> None:
        usage = {
            "input_tokens": 10, "output_tokens": 5,
            "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7,
        }  # fmt: skip
        assert usage_of({"content": [], "usage": usage}) == {
            "tokens": 122, "tokens:in": 10, "tokens:out": 5,
            "tokens:cache_read": 100, "tokens:cache_write": 7,
        }  # fmt: skip

    def test_openai_counts_cached_tokens_as_input(self) -> None:
        usage = {
            "input_tokens": 110, "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
        }  # fmt: skip
        expected = {"tokens": 115, "tokens:in": 10, "tokens:out": 5, "tokens:cache_read": 100}
        assert usage_of({"output": [], "usage": usage}) == expected
        chat = {
            "prompt_tokens": 110, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 100, "audio_tokens": None},
        }  # fmt: skip
        assert usage_of({"choices": [], "usage": chat}) == expected

    @pytest.mark.parametrize("plain", ["hi", {}, {"usage": None}, {"usage": {"input_tokens": "9"}}])
    def test_missing_usage_is_not_counted(self, plain: Any) -> None:
        assert usage_of(plain) == {}


class TestText:
    @pytest.mark.parametrize("spoken", ["anthropic", "openai", "openai-chat", "plain"])
    def test_the_text_excludes_thinking_and_tool_requests(self, spoken: str) -> None:
        assert text_of(response(spoken, "hi", ("c", "read", {}), thinking="hmm")) == "hi"

    def test_the_text_includes_a_refusal(self) -> None:
        assert text_of({"role": "assistant", "content": None, "refusal": "no"}) == "no"
        part = {"type": "refusal", "refusal": "no"}
        assert text_of({"output": [{"type": "message", "content": [part]}]}) == "no"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"tokens": 12, "searches": 2}, {"tokens": 12, "searches": 2}),
        ({"input_tokens": 50, "output_tokens": 7}, {"tokens": 57, "tokens:in": 50, "tokens:out": 7}),
        ({"prompt_tokens": 50, "completion_tokens": 7}, {"tokens": 57, "tokens:in": 50, "tokens:out": 7}),
        ({"total_tokens": 9}, {"tokens": 9}),
        ({"tokens:in": 50, "tokens:out": 7}, {"tokens": 57, "tokens:in": 50, "tokens:out": 7}),
        ({"tokens": 60, "tokens:in": 50}, {"tokens": 60, "tokens:in": 50}),
        ({"money:USD": 5}, {"money:usd": 5}),
        ({}, {}),
    ],
)  # fmt: skip
def test_usage_is_counted_in_our_units_whatever_its_names(usage, counted):
    assert reported_usage(usage) == counted


def test_a_providers_cache_reads_are_apart_from_its_input_as_in_its_responses():
    openai = {
        "input_tokens": 100,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 80},
    }
    anthropic = {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 80}
    wanted = {"tokens": 105, "tokens:in": 20, "tokens:out": 5, "tokens:cache_read": 80}
    assert reported_usage(openai) == reported_usage(anthropic) == wanted


@pytest.mark.parametrize("amount", ["5", 2.5, None, True])
def test_usage_that_is_no_number_is_left_to_be_refused(amount):
    assert reported_usage({"input_tokens": amount}) == {"input_tokens": amount}
