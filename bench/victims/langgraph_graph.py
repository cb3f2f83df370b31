"""LangGraph: a model node and a prebuilt ToolNode, SqliteSaver, durability="sync"; resumed by
`invoke(None, config)` on the same thread, as its page on durable execution says."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench.victims import common

CONFIG: Any = {"configurable": {"thread_id": "pay"}}
KINDS = {"human": "prompt", "ai": "call", "tool": "result"}


def model(state: MessagesState) -> dict[str, Any]:
    shown = [{"what": KINDS[m.type], "text": str(m.content)} for m in state["messages"]]
    text = common.think(shown)
    ask = {"name": "pay", "args": common.ASK, "id": "call_1"}
    return {"messages": [AIMessage(text) if text else AIMessage("", tool_calls=[ask])]}


def graph(saver: SqliteSaver) -> Any:
    built = StateGraph(MessagesState)
    built.add_node("model", model)
    built.add_node("tools", ToolNode([tool(common.pay)]))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    return built.compile(checkpointer=saver)


def invoke(given: Any) -> str:
    with SqliteSaver.from_conn_string("agent.db") as saver:
        state = graph(saver).invoke(given, CONFIG, durability="sync")
        return str(state["messages"][-1].content)


def start() -> str:
    return invoke({"messages": [HumanMessage(common.PROMPT)]})


def resume() -> str:
    return invoke(None)


def kept() -> list[str]:
    with SqliteSaver.from_conn_string("agent.db") as saver:
        state = graph(saver).get_state(CONFIG)
    asked = [c["name"] for m in state.values["messages"] for c in getattr(m, "tool_calls", ())]
    return [f"request {name}: next {', '.join(state.next)}" for name in asked]


if __name__ == "__main__":
    common.main(start, resume, kept)
