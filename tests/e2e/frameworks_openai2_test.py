#!/usr/bin/env python3
"""instructor and LlamaIndex, which want an older openai package: typed answers, streamed too, and agents, on a tiny model under masks.

usage: frameworks_openai2_test.py [--only TEXT]

Where instructor describes a type in the prompt alone (JSON, MD_JSON) the small real model is asked, at temperature 0.
"""
import argparse
import asyncio
import json
import sys
from typing import Iterable, Literal

import frameworks
from frameworks import CITIES, MAX_TOKENS, USER, Calls, versions

frameworks.enter("frameworks-openai2-venv", "instructor and LlamaIndex")

import pydantic  # noqa: E402


class Trip(pydantic.BaseModel):
    """A journey."""
    city: Literal["Paris", "Oslo"] = pydantic.Field(description="where to")
    days: int = pydantic.Field(ge=1, le=9)
    by_train: bool
    note: str | None


class City(pydantic.BaseModel):
    city: str


class Anything(pydantic.BaseModel):
    city: pydantic.JsonValue = None


ASKED = dict(messages=[{"role": "user", "content": USER}], temperature=1.5, seed=2, max_tokens=MAX_TOKENS, max_retries=0)


# instructor


def instructor_client(server, mode):
    import instructor
    import openai
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=120)
    return instructor.from_openai(client, mode=getattr(instructor.Mode, mode), model=server.model)


def instructor_mode(server, mode):
    trip, completion = instructor_client(server, mode).chat.completions.create_with_completion(response_model=Trip, **ASKED)
    assert isinstance(trip, Trip) and completion.choices[0].finish_reason in ("stop", "tool_calls"), completion
    return versions("instructor", "openai")


def instructor_streams(server, mode):
    """An object that grows."""
    parts = list(instructor_client(server, mode).chat.completions.create_partial(response_model=Trip, **ASKED))
    assert len(parts) > 3 and Trip.model_validate(parts[-1].model_dump()), parts[-1]


def instructor_json(server):
    """Any object comes, which a type without required members takes."""
    assert isinstance(instructor_client(server, "JSON").chat.completions.create(response_model=Anything, **ASKED), Anything)


def instructor_real(server, mode):
    """The type is told in the prompt; earlier turns show the model how its answers look."""
    asked, shown = "city: %s", '{"city": "%s"}'
    if mode == "MD_JSON":  # it puts this behind the last question
        asked, shown = asked + "\n\nReturn the correct JSON response within a ```json codeblock. not the JSON_SCHEMA", f"```json\n{shown}\n```"
    turns = [turn for city in ("Paris", "Rome", "Madrid") for turn in (
        {"role": "user", "content": asked % city}, {"role": "assistant", "content": shown % city})]
    return instructor_client(server, mode).chat.completions.create(response_model=City, max_retries=0, temperature=0, max_tokens=80,
                                                                   messages=[*turns, {"role": "user", "content": "city: Oslo"}])


# LlamaIndex


def openai_like(server, **fields):
    from llama_index.llms.openai_like import OpenAILike
    return OpenAILike(**{"model": server.model, "api_base": server.url, "api_key": "none", "is_chat_model": True, "is_function_calling_model": True,
                         "context_window": 60000, "temperature": 1.5, "max_tokens": MAX_TOKENS, "max_retries": 0, "timeout": 120,
                         "additional_kwargs": {"seed": 4}, **fields})


def llama_index_structured(server):
    """By a call of a tool, and by response_format."""
    from llama_index.core.prompts import PromptTemplate
    prompt = PromptTemplate("Plan a trip to {where}.")
    for by_format in (False, True):
        llm = openai_like(server, should_use_structured_outputs=by_format)
        assert isinstance(llm.structured_predict(Trip, prompt, where="Oslo"), Trip)
        assert isinstance(llm.as_structured_llm(Trip).complete("Plan a trip.").raw, Trip)
    parts = list(llm.stream_structured_predict(Trip, prompt, where="Oslo"))  # of a form: where it streams calls, it leaves the model free to make none
    assert len(parts) > 3 and Trip.model_validate(parts[-1].model_dump()), parts[-1]
    return versions("llama-index-core", "llama-index-llms-openai-like")


def weather_tool(calls):
    from llama_index.core.tools import FunctionTool

    def get_weather(city: Literal["Paris", "Oslo"], days: int) -> str:
        """Says the weather."""
        return calls.get_weather(city, days)

    return FunctionTool.from_defaults(get_weather)


def llama_index_tools(server):
    calls = Calls()
    for strict in (False, True):
        llm = openai_like(server, strict=strict)
        assert llm.predict_and_call([weather_tool(calls)], USER, tool_required=True).response in [f"{city}: sun for {days} days" for city, days in calls.seen]
        *_, last = llm.stream_chat_with_tools([weather_tool(calls)], USER, tool_required=True)
        (call,) = llm.get_tool_calls_from_response(last)
        assert call.tool_name == "get_weather" and calls.get_weather(**call.tool_kwargs), call
    assert len(calls.seen) == 4


def llama_index_agent(server):
    """The first turn is told to call the tool; a later one, free to call again, answers."""
    from llama_index.core.agent.workflow import FunctionAgent
    for streaming in (True, False):
        calls = Calls()
        agent = FunctionAgent(tools=[weather_tool(calls)], llm=openai_like(server, max_tokens=200), system_prompt="Be brief.", initial_tool_choice="get_weather",
                              streaming=streaming)

        async def go():
            return await agent.run(USER, max_iterations=30)

        result = asyncio.run(go())
        assert calls.seen and result.response.role == "assistant" and not result.tool_calls[len(calls.seen):], result
    return f"{len(calls.seen)} calls"


TINY = {
    **{f"instructor: {mode}": lambda server, mode=mode: instructor_mode(server, mode) for mode in ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA")},
    "instructor: JSON": instructor_json,
    **{f"instructor: streams of {mode}": lambda server, mode=mode: instructor_streams(server, mode) for mode in ("TOOLS", "JSON_SCHEMA")},
    "llama-index: structured predict": llama_index_structured,
    "llama-index: tools": llama_index_tools,
    "llama-index: FunctionAgent": llama_index_agent,
}
REAL = {f"instructor: {mode} of a real model": lambda server, mode=mode: instructor_real(server, mode) for mode in ("JSON", "MD_JSON")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="tests whose name has this")
    sys.exit(frameworks.run(TINY, REAL, parser.parse_args().only))


if __name__ == "__main__":
    main()
