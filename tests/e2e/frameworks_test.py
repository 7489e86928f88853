#!/usr/bin/env python3
"""LiteLLM, LangChain, pydantic-ai, smolagents and Outlines as their users call them: tools, forms and agents, on a tiny model under masks.

usage: frameworks_test.py [--only TEXT]

Where a framework sends no form along (json_mode, prompted output) the small real model is asked, at temperature 0.
"""
import argparse
import json
import re
import sys
from typing import Literal

import frameworks
from frameworks import CITIES, MAX_TOKENS, USER, Calls, versions

frameworks.enter("frameworks-venv", "the frameworks")

import pydantic  # noqa: E402


class Trip(pydantic.BaseModel):
    """A journey."""
    city: Literal["Paris", "Oslo"] = pydantic.Field(description="where to")
    days: int = pydantic.Field(ge=1, le=9)
    by_train: bool
    stops: list[Literal["Bern", "Rome"]] = pydantic.Field(max_length=3)
    note: str | None = None


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Says the weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": list(CITIES)}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "description": "Says the time.", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["zone"], "additionalProperties": False}}}


def right_call(name, arguments):
    import jsonschema
    jsonschema.validate(arguments, {"get_weather": WEATHER, "get_time": CLOCK}[name]["function"]["parameters"])


# LiteLLM


def litellm_asked(server, provider, **fields):
    import litellm
    litellm.suppress_debug_info = True
    return dict(model=f"{provider}/{server.model}", api_base=server.url, api_key="none", messages=[{"role": "user", "content": USER}], temperature=1.5,
                seed=7, max_tokens=MAX_TOKENS, **fields)


def litellm_calls(server):
    import litellm
    for provider in ("openai", "hosted_vllm"):
        for choice, names in (("required", {"get_weather", "get_time"}), ({"type": "function", "function": {"name": "get_time"}}, {"get_time"})):
            asked = litellm_asked(server, provider, tools=[WEATHER, CLOCK], tool_choice=choice)
            whole = litellm.completion(**asked).choices[0]
            assert whole.finish_reason == "tool_calls" and whole.message.tool_calls, whole
            said = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
            for name, arguments in said:
                assert name in names, name
                right_call(name, json.loads(arguments))
            joined = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True))).choices[0]
            assert joined.finish_reason == "tool_calls" and [(call.function.name, call.function.arguments) for call in joined.message.tool_calls] == said, joined
            turns = [*asked["messages"], whole.message, *({"role": "tool", "tool_call_id": call.id, "content": "sun"} for call in whole.message.tool_calls)]
            assert litellm.completion(**{**asked, "messages": turns, "tool_choice": "none", "max_tokens": 5}).choices[0].finish_reason in ("stop", "length")
    return versions("litellm")


def litellm_forms(server):
    import litellm
    for provider in ("openai", "hosted_vllm"):
        for form in (Trip, {"type": "json_schema", "json_schema": {"name": "trip", "schema": Trip.model_json_schema(), "strict": True}}):
            asked = litellm_asked(server, provider, response_format=form)
            whole = litellm.completion(**asked).choices[0]
            assert whole.finish_reason == "stop", whole
            Trip.model_validate_json(whole.message.content)
            pieces = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(**asked, stream=True)]
            assert "".join(pieces) == whole.message.content, pieces


def litellm_async(server):
    import asyncio

    import litellm

    async def both():
        asked = litellm_asked(server, "openai", tools=[WEATHER], tool_choice="required")
        whole = await litellm.acompletion(**asked)
        chunks = [chunk async for chunk in await litellm.acompletion(**asked, stream=True, stream_options={"include_usage": True})]
        return whole, litellm.stream_chunk_builder(chunks)

    whole, joined = asyncio.run(both())
    assert whole.usage.completion_tokens == joined.usage.completion_tokens > 0, (whole, joined)
    assert [call.function.arguments for call in whole.choices[0].message.tool_calls] == [call.function.arguments for call in joined.choices[0].message.tool_calls]


# LangChain


def chat_openai(server, **fields):
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(**{"model": server.model, "base_url": server.url, "api_key": "none", "temperature": 1.5, "seed": 3, "max_tokens": MAX_TOKENS,
                         "max_retries": 0, **fields})


def langchain_structured(server, method):
    for strict in (None, True):
        model = chat_openai(server).with_structured_output(Trip, method=method, include_raw=True, strict=strict)
        got = model.invoke(USER)
        assert isinstance(got["parsed"], Trip) and got["parsing_error"] is None, got
    parts = list(chat_openai(server).with_structured_output(Trip.model_json_schema(), method=method).stream(USER))
    Trip.model_validate(parts[-1])
    return versions("langchain-openai")


def langchain_json_mode(server):
    """Any object comes, which a type without required members takes."""
    class Anything(pydantic.BaseModel):
        city: pydantic.JsonValue = None

    got = chat_openai(server).with_structured_output(Anything, method="json_mode", include_raw=True).invoke("Answer in JSON.")
    assert isinstance(got["parsed"], Anything) and got["raw"].response_metadata["finish_reason"] == "stop", got
    json.loads(got["raw"].content)


def langchain_json_mode_real(server):
    class City(pydantic.BaseModel):
        city: str

    model = chat_openai(server, temperature=0, max_tokens=60).with_structured_output(City, method="json_mode")
    got = model.invoke('Repeat this JSON and say nothing else: {"city": "Oslo"}')
    assert isinstance(got, City), got
    return got


def langchain_bind_tools(server):
    from langchain_core.messages import ToolMessage
    for choice, names in (("any", {"get_weather", "get_time"}), ("get_time", {"get_time"}), (True, {"get_weather"})):
        tools = [WEATHER] if choice is True else [WEATHER, CLOCK]
        model = chat_openai(server).bind_tools(tools, tool_choice=choice)
        message = model.invoke(USER)
        assert message.tool_calls and not message.invalid_tool_calls and {call["name"] for call in message.tool_calls} <= names, message
        for call in message.tool_calls:
            right_call(call["name"], call["args"])
        joined = None
        for chunk in model.stream(USER):
            joined = chunk if joined is None else joined + chunk
        assert [(c["name"], c["args"]) for c in joined.tool_calls] == [(c["name"], c["args"]) for c in message.tool_calls], (joined, message)
        turns = [("user", USER), message, *(ToolMessage("sun", tool_call_id=call["id"]) for call in message.tool_calls)]
        assert chat_openai(server, max_tokens=5).invoke(turns).content is not None


def langchain_agent(server):
    """The first turn calls the tool, by a middleware that chooses; the next one answers."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_model_call
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool
    calls = Calls()

    @tool
    def get_weather(city: Literal["Paris", "Oslo"], days: int) -> str:
        """Says the weather."""
        return calls.get_weather(city, days)

    @wrap_model_call
    def first_a_call(request, handler):
        return handler(request.override(tool_choice="none" if any(isinstance(m, ToolMessage) for m in request.messages) else "required"))

    agent = create_agent(chat_openai(server, max_tokens=200), [get_weather], system_prompt="Be brief.", middleware=[first_a_call])
    said = agent.invoke({"messages": [("user", USER)]})["messages"]
    assert calls.seen and isinstance(said[-1], AIMessage) and not said[-1].tool_calls, said
    assert sum(isinstance(message, ToolMessage) for message in said) == len(calls.seen), said
    return versions("langchain", "langgraph") + f", {len(calls.seen)} calls"


def langchain_agent_forms(server):
    """An agent whose answer has a form: by a tool, which ends it, and by response_format."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelCallLimitMiddleware
    from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
    for strategy in (ToolStrategy(Trip), ProviderStrategy(Trip)):
        agent = create_agent(chat_openai(server, model_kwargs={"parallel_tool_calls": False} if isinstance(strategy, ToolStrategy) else {}), [],
                             response_format=strategy, middleware=[ModelCallLimitMiddleware(run_limit=4)])
        got = agent.invoke({"messages": [("user", USER)]})
        assert isinstance(got["structured_response"], Trip), got


# pydantic-ai


def pydantic_ai_agent(server, output_type, real=False, **fields):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    settings = {"temperature": 0, "max_tokens": 80} if real else {"temperature": 1.5, "seed": 5, "max_tokens": MAX_TOKENS}
    model = OpenAIChatModel(server.model, provider=OpenAIProvider(base_url=server.url, api_key="none"))
    return Agent(model, output_type=output_type, model_settings=settings, retries=0, **fields)


def pydantic_ai_output(server, kind):
    import pydantic_ai
    form = getattr(pydantic_ai, kind)(Trip, strict=False)  # in strict mode it leaves bounds out of what it sends
    agent = pydantic_ai_agent(server, form)
    assert isinstance(agent.run_sync(USER).output, Trip)
    streamed = agent.run_stream_sync(USER)
    assert isinstance(streamed.get_output(), Trip)
    return versions("pydantic-ai-slim")


def pydantic_ai_tool(server):
    """A tool beside the tool that ends the run; so many requests at most."""
    from pydantic_ai import ToolOutput, UsageLimits
    calls = Calls()
    agent = pydantic_ai_agent(server, ToolOutput(Trip, strict=False), system_prompt="Be brief.")

    @agent.tool_plain
    def get_weather(city: Literal["Paris", "Oslo"], days: int) -> str:
        """Says the weather."""
        return calls.get_weather(city, days)

    for i in range(4):  # one seed for all of a run would make the same call in each turn
        result = agent.run_sync(USER, model_settings=lambda run: {"seed": 100 * i + run.run_step}, usage_limits=UsageLimits(request_limit=20))
        assert isinstance(result.output, Trip), result
    assert calls.seen
    return f"{len(calls.seen)} calls before 4 ends"


def pydantic_ai_prompted(server):
    """With json_object alone: any object comes, which a type without required members takes."""
    import pydantic_ai

    class Anything(pydantic.BaseModel):
        city: pydantic.JsonValue = None

    assert isinstance(pydantic_ai_agent(server, pydantic_ai.PromptedOutput(Anything)).run_sync(USER).output, Anything)


def pydantic_ai_prompted_real(server):
    """The type is told in the prompt; earlier turns show the model how its answers look."""
    import pydantic_ai
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    class City(pydantic.BaseModel):
        city: str

    turns = [turn for asked, city in (("city: Paris", "Paris"), ("city: Rome", "Rome"), ("city: Madrid", "Madrid")) for turn in (
        ModelRequest([UserPromptPart(asked)]), ModelResponse([TextPart(json.dumps({"city": city}))]))]
    return pydantic_ai_agent(server, pydantic_ai.PromptedOutput(City), real=True).run_sync("city: Oslo", message_history=turns).output


# smolagents


def smolagents_agent(server):
    """Each of its steps requires a call; final_answer ends the run, or else the bound of steps."""
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    calls = Calls()

    @tool
    def get_weather(city: str, days: int) -> str:
        """Says the weather.

        Args:
            city: The city. (choices: ["Paris", "Oslo"])
            days: For so many days.
        """
        return calls.get_weather(city, days)

    n_final = 0
    for i in range(6):
        model = OpenAIServerModel(server.model, api_base=server.url, api_key="none", temperature=1.5, seed=100 * i, max_tokens=MAX_TOKENS,
                                  parallel_tool_calls=False)  # it takes no other call beside final_answer
        agent = ToolCallingAgent(tools=[get_weather], model=model, max_steps=4, verbosity_level=-1, stream_outputs=i % 2 == 1,
                                 step_callbacks=[lambda _, agent: agent.model.kwargs.update(seed=agent.model.kwargs["seed"] + 1)])
        agent.logger.console.quiet = True  # a stream is printed otherwise
        result = agent.run(USER, return_full_result=True)
        assert result.state in ("success", "max_steps_error"), result
        n_final += result.state == "success"
        errors = [step["error"] for step in agent.memory.get_full_steps() if step.get("error")]
        assert all(error["type"] == "AgentMaxStepsError" for error in errors), errors
    assert calls.seen and n_final, (calls.seen, n_final)
    return versions("smolagents") + f", {len(calls.seen)} calls, {n_final} of 6 runs by final_answer"


# Outlines


def outlines_model(server, make):
    import openai
    import outlines
    return getattr(outlines, make)(openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=120), server.model)


def outlines_openai(server):
    """Its OpenAI mode has JSON alone; of a pattern or a choice it says itself that it has none."""
    model = outlines_model(server, "from_openai")
    Trip.model_validate_json(model(USER, Trip, max_tokens=MAX_TOKENS, temperature=1.5, seed=1))
    assert isinstance(json.loads(model(USER, dict, max_tokens=MAX_TOKENS, temperature=1, seed=1)), dict)
    text = "".join(model.stream(USER, Trip, max_tokens=MAX_TOKENS, temperature=1.5, seed=1))
    Trip.model_validate_json(text)
    return versions("outlines")


def outlines_servers(server):
    """Its modes for vLLM and SGLang: choices, patterns, types, and for vLLM a grammar."""
    from outlines.types import CFG, Regex
    lark = 'start: "a" digit+ "b"\ndigit: /[0-9]/\n'
    for make in ("from_vllm", "from_sglang"):
        model = outlines_model(server, make)
        asked = dict(max_tokens=MAX_TOKENS, temperature=1.5, seed=1)
        Trip.model_validate_json(model(USER, Trip, **asked))
        assert model(USER, Literal["yes", "no"], **asked) in ("yes", "no")
        assert re.fullmatch(r"\d{4}-[a-f]{2}", model(USER, Regex(r"\d{4}-[a-f]{2}"), **asked))
        int(model(USER, int, **asked))
        if make == "from_vllm":
            assert re.fullmatch("a[0-9]+b", model(USER, CFG(lark), **asked))


TINY = {
    "litellm: tools, whole and streamed": litellm_calls,
    "litellm: response_format": litellm_forms,
    "litellm: async": litellm_async,
    "langchain: with_structured_output json_schema": lambda server: langchain_structured(server, "json_schema"),
    "langchain: with_structured_output function_calling": lambda server: langchain_structured(server, "function_calling"),
    "langchain: with_structured_output json_mode": langchain_json_mode,
    "langchain: bind_tools": langchain_bind_tools,
    "langchain: create_agent": langchain_agent,
    "langchain: create_agent with response_format": langchain_agent_forms,
    "pydantic-ai: tool output": lambda server: pydantic_ai_output(server, "ToolOutput"),
    "pydantic-ai: native output": lambda server: pydantic_ai_output(server, "NativeOutput"),
    "pydantic-ai: prompted output": pydantic_ai_prompted,
    "pydantic-ai: an agent's tools": pydantic_ai_tool,
    "smolagents: ToolCallingAgent": smolagents_agent,
    "outlines: from_openai": outlines_openai,
    "outlines: from_vllm, from_sglang": outlines_servers,
}
REAL = {
    "langchain: json_mode of a real model": langchain_json_mode_real,
    "pydantic-ai: prompted output of a real model": pydantic_ai_prompted_real,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="tests whose name has this")
    sys.exit(frameworks.run(TINY, REAL, parser.parse_args().only))


if __name__ == "__main__":
    main()
