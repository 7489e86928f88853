#!/usr/bin/env python3
"""Frameworks that speak /v1/responses, as their users call them: openai-agents (tools, a handoff, output_type) and what pydantic-ai calls
`openai:`; on a tiny model under masks, whole and streamed.

usage: frameworks_responses_test.py [--only TEXT]
"""
import argparse
import asyncio
import os
import sys
from typing import Literal

import frameworks
from frameworks import CITIES, MAX_TOKENS, USER, Calls, versions

frameworks.enter("frameworks-venv", "the frameworks of /v1/responses")

import pydantic  # noqa: E402


class Trip(pydantic.BaseModel):
    """A journey."""
    city: Literal["Paris", "Oslo"] = pydantic.Field(description="where to")
    days: int = pydantic.Field(ge=1, le=9)
    by_train: bool


# openai-agents


def agents_model(server):
    import agents
    import openai
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=120)
    return agents.OpenAIResponsesModel(model=server.model, openai_client=client)


def agents_settings(seed, **fields):
    """It takes no answer that was cut."""
    import agents
    return agents.ModelSettings(temperature=1.5, max_tokens=MAX_TOKENS, store=False, extra_body={"seed": seed}, **fields)


def agents_run(agent, streamed, **fields):
    """The result of a run, and the kinds of items that it made."""
    import agents

    async def run():
        if not streamed:
            return await agents.Runner.run(agent, USER, **fields)
        result = agents.Runner.run_streamed(agent, USER, **fields)
        kinds = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
        assert {"response.created", "response.output_item.done"} <= set(kinds), kinds
        return result

    result = asyncio.run(run())
    return result, [item.type for item in result.new_items]


def agents_tools(server):
    """A call is required in the first turn, and its result goes back in the next."""
    import agents
    calls = Calls()

    @agents.function_tool
    def get_weather(city: Literal["Paris", "Oslo"], days: int) -> str:
        """Says the weather."""
        return calls.get_weather(city, days)

    class OneCall(agents.AgentHooks):
        async def on_tool_end(self, context, agent, tool, result):
            agent.model_settings.tool_choice = "none"  # chance would call again

    for streamed in (False, True):
        agent = agents.Agent(name="weather", instructions="Be brief.", tools=[get_weather], model=agents_model(server), hooks=OneCall(), reset_tool_choice=False,
                             model_settings=agents_settings(3, tool_choice="required", parallel_tool_calls=False))
        result, kinds = agents_run(agent, streamed)
        assert kinds == ["tool_call_item", "tool_call_output_item", "message_output_item"] and isinstance(result.final_output, str), kinds
    assert len(calls.seen) == 2 and calls.seen[0] == calls.seen[1], calls.seen
    return versions("openai-agents") + f", {len(calls.seen)} calls"


def agents_handoff(server):
    import agents
    for streamed in (False, True):
        model = agents_model(server)
        other = agents.Agent(name="Forecaster", handoff_description="knows the weather", model=model, model_settings=agents_settings(1))
        first = agents.Agent(name="Desk", instructions="Pass it on.", handoffs=[other], model=model,
                             model_settings=agents_settings(1, tool_choice="required", parallel_tool_calls=False))
        result, kinds = agents_run(first, streamed)
        assert result.last_agent is other and kinds[:2] == ["handoff_call_item", "handoff_output_item"], (result.last_agent, kinds)


def agents_output_type(server):
    import agents
    for streamed in (False, True):
        agent = agents.Agent(name="trips", output_type=Trip, model=agents_model(server), model_settings=agents_settings(5))
        result, _ = agents_run(agent, streamed)
        assert isinstance(result.final_output, Trip), result


# pydantic-ai


def pydantic_ai_agent(server, output_type=str, **fields):
    """By its own name for OpenAI's models, which says nothing of this server: the environment does."""
    from pydantic_ai import Agent
    os.environ.update(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
    return Agent(f"openai:{server.model}", output_type=output_type, retries=0,
                 model_settings={"temperature": 1.5, "max_tokens": MAX_TOKENS, "extra_body": {"seed": 5}}, **fields)


def pydantic_ai_output(server):
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIResponsesModel
    for kind in ("ToolOutput", "NativeOutput"):
        agent = pydantic_ai_agent(server, getattr(pydantic_ai, kind)(Trip, strict=False))
        assert isinstance(agent.model, OpenAIResponsesModel), agent.model
        assert isinstance(agent.run_sync(USER).output, Trip)
        assert isinstance(agent.run_stream_sync(USER).get_output(), Trip)
    return versions("pydantic-ai-slim")


def pydantic_ai_tool(server):
    """Calls of an agent's own tool before the one that ends it; so many requests at most."""
    from pydantic_ai import ToolOutput, UsageLimits
    calls = Calls()
    agent = pydantic_ai_agent(server, ToolOutput(Trip, strict=False), instructions="Be brief.")

    @agent.tool_plain
    def get_weather(city: Literal["Paris", "Oslo"], days: int) -> str:
        """Says the weather."""
        return calls.get_weather(city, days)

    for i in range(4):
        result = agent.run_sync(USER, model_settings=lambda run: {"extra_body": {"seed": 100 * i + run.run_step}}, usage_limits=UsageLimits(request_limit=20))
        assert isinstance(result.output, Trip), result
    assert calls.seen and all(city in CITIES for city, _ in calls.seen)
    return f"{len(calls.seen)} calls before 4 ends"


TINY = {
    "openai-agents: tools": agents_tools,
    "openai-agents: a handoff": agents_handoff,
    "openai-agents: output_type": agents_output_type,
    "pydantic-ai openai: tool and native output": pydantic_ai_output,
    "pydantic-ai openai: an agent's tools": pydantic_ai_tool,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="tests whose name has this")
    sys.exit(frameworks.run(TINY, {}, parser.parse_args().only))


if __name__ == "__main__":
    main()
