"""Drives the Python client (PyPI `mcp`) through a plan and prints one JSON verdict.

The steps are those of `lib/steps.mjs`, in the same order and with the same names.
"""

import json
import os
import sys
import threading
import time
import warnings
from contextlib import AsyncExitStack

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

# Far above what a step takes on a quiet machine: tests also run where others compile.
PATIENCE_SECONDS = 15
STEP_SECONDS_MAX = 60
WATCHDOG_SECONDS = 180
PARALLEL_CALLS = 20
LARGE_BYTES = 900_000  # this client refuses SSE events of 1 MiB and more
PROGRESS_STEPS = 8
# Logging and sampling are deprecated in the newest revision; the tests still need them.
warnings.simplefilter("ignore")
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


def text_of(result):
    return "".join(getattr(block, "text", "") for block in result.content)


def check(holds, words):
    if not holds:
        raise AssertionError(words)


async def until(holds, words):
    end = time.monotonic() + PATIENCE_SECONDS
    while not await holds():
        check(time.monotonic() < end, words)
        await anyio.sleep(0.05)


class Agent:
    """The client, the answers of a pretend user and model, and what arrived unasked."""

    def __init__(self, plan):
        self.plan = plan
        self.prefix = plan.get("prefix", "")
        self.logs = []
        self.tool_changes = 0
        self.stack = AsyncExitStack()

    async def connect(self):
        self.client = await self.stack.enter_async_context(
            Client(
                await self.target(),
                mode=MODES[self.plan.get("era", "auto")],
                elicitation_callback=self.elicit,
                sampling_callback=self.sample,
                logging_callback=self.log,
                log_level="info",
                message_handler=self.message,
            )
        )

    async def target(self):
        plan = self.plan
        if "command" in plan:
            program, *arguments = plan["command"]
            env = {**os.environ, **plan.get("env", {})}
            return StdioServerParameters(command=program, args=arguments, env=env, cwd=plan.get("cwd"))
        if plan.get("transport") == "sse":
            return sse_client(plan["url"], headers=plan.get("headers"))
        http_client = await self.stack.enter_async_context(create_mcp_http_client(headers=plan.get("headers")))
        return streamable_http_client(plan["url"], http_client=http_client)

    async def elicit(self, _context, params):
        schema = params.requested_schema
        answers = {"name": "Ada", "colour": "green"}
        content = {field: answers.get(field, "yes") for field in schema["properties"]}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, _context, _params):
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", model="pretend", stop_reason="endTurn", content=content)

    async def log(self, params):
        self.logs.append(params.level)

    async def message(self, message):
        if isinstance(message, types.ToolListChangedNotification):
            self.tool_changes += 1

    def is_modern(self):
        return self.client.protocol_version >= "2026-07-28"

    async def call(self, tool, args=None, **options):
        return await self.client.call_tool(self.prefix + tool, args or {}, **options)

    async def tool_names(self):
        return [tool.name for tool in (await self.client.list_tools(cache_mode="bypass")).tools]


async def list_tools(agent):
    names = await agent.tool_names()
    check(agent.prefix + "echo" in names, f"no echo among {names}")
    return len(names)


async def call_allowed(agent):
    words = 'grüße, 世界 👋 \u2028 "quoted" \\ \t'
    check(text_of(await agent.call("echo", {"text": words})) == words, "the words changed")


async def call_structured(agent):
    result = await agent.call("add", {"a": 2, "b": 40.5})
    check(result.structured_content == {"sum": 42.5}, f"{result.structured_content}")


async def call_large(agent):
    words = "x" * LARGE_BYTES
    check(text_of(await agent.call("echo", {"text": words})) == words, "the words changed")


async def call_denied(agent):
    denied = agent.plan.get("denied")
    if not denied:
        check(text_of(await agent.call("delete_everything")).startswith("deleted everything"), "the tool did not run")
        return "direct: the tool ran"
    return check_denied(await agent.call(denied["tool"], denied.get("args")), denied["code"])


def check_denied(result, code):
    check(result.is_error, "not refused")
    check(text_of(result).startswith("[POLICY DENIED] "), text_of(result))
    denial = (result.meta or {}).get("tollgate/denial")
    check(denial is not None, "no machine-readable denial")
    check(denial["code"] == code, f"{denial}")
    check(isinstance(denial.get("rule"), str) and isinstance(denial.get("reason"), str), f"{denial}")
    return denial


async def call_unknown(agent):
    try:
        result = await agent.call("no_such_tool")
    except MCPError as error:
        return error.message[:120]
    check(result.is_error, "an unknown tool was answered")
    return text_of(result)[:120]


async def calls_in_parallel(agent):
    answers = [None] * PARALLEL_CALLS

    async def one(index):
        answers[index] = text_of(await agent.call("echo", {"text": f"call {index}"}))

    async with anyio.create_task_group() as group:
        for index in range(PARALLEL_CALLS):
            group.start_soon(one, index)
    check(answers == [f"call {index}" for index in range(PARALLEL_CALLS)], f"{answers}")


async def resources(agent):
    client = agent.client
    check(any(r.uri == "kit://note" for r in (await client.list_resources()).resources), "no note")
    templates = (await client.list_resource_templates()).resource_templates
    check(any(t.uri_template == "kit://item/{id}" for t in templates), "no item template")
    check((await client.read_resource("kit://note")).contents[0].text == "remember the milk", "another note")
    check((await client.read_resource("kit://item/7")).contents[0].text == '{"id":"7"}', "another item")
    try:
        await client.read_resource("kit://nothing")
    except MCPError as error:
        check(error.code in (-32602, -32002), f"code {error.code}")
    else:
        raise AssertionError("a missing resource was answered")


async def prompts(agent):
    name = agent.prefix + "greeting"
    check(any(p.name == name for p in (await agent.client.list_prompts()).prompts), "no greeting")
    got = await agent.client.get_prompt(name, {"name": "Ada"})
    check(got.messages[0].content.text == "Greet Ada.", "another greeting")


async def completion(agent):
    ref = types.PromptReference(type="ref/prompt", name=agent.prefix + "greeting")
    result = await agent.client.complete(ref, {"name": "name", "value": "ad"})
    check(result.completion.values == ["ada", "adele"], f"{result.completion.values}")


async def progress(agent):
    wanted = list(range(1, PROGRESS_STEPS + 1))
    for step_ms in (10, 0):
        seen = []

        async def on_progress(done, _total, _message, seen=seen):
            seen.append(int(done))

        args = {"to": PROGRESS_STEPS, "step_ms": step_ms}
        result = await agent.call("count", args, progress_callback=on_progress)
        check(text_of(result) == f"counted to {PROGRESS_STEPS}", text_of(result))

        async def all_told(seen=seen):
            return len(seen) >= len(wanted)

        # The client calls back in tasks of its own, which may run after the result is there.
        await until(all_told, "not all progress was told")
        check(seen == wanted, f"{seen}")


async def elicitation(agent):
    check(text_of(await agent.call("ask_user")) == "Hello, Ada!", "no greeting")
    check(text_of(await agent.call("ask_user_twice")) == "Ada likes green", "no colour")


async def sampling(agent):
    check(text_of(await agent.call("ask_model")) == "The model said: Paris", "no capital")


async def mirrored_headers(agent):
    if agent.prefix + "look_up" not in await agent.tool_names():
        return "not offered in this era"
    for region in ("eu-west", "Zürich", "=?base64?x", " padded "):
        args = {"region": region, "level": 3, "fresh": True, "note": "not mirrored"}
        check(json.loads(text_of(await agent.call("look_up", args))) == args, "the arguments changed")


async def cancellation(agent):
    key = f"linger-{os.getpid()}-py-{agent.plan.get('era')}"
    with anyio.move_on_after(0.3):
        await agent.call("linger", {"key": key, "ms": 60_000})
        raise AssertionError("answered too soon")

    async def heard():
        return key in text_of(await agent.call("cancelled"))

    await until(heard, "the server never heard of it")


async def logging(agent):
    if not agent.is_modern():
        await agent.client.set_logging_level("info")
    agent.logs.clear()
    await agent.call("log")

    async def both():
        return len(agent.logs) >= 2

    await until(both, f"logs: {agent.logs}")
    check(agent.logs == ["info", "error"], f"{agent.logs}")


async def list_changed(agent):
    if agent.is_modern():
        async with agent.client.listen(tools_list_changed=True) as events:
            await agent.call("grow")
            with anyio.fail_after(PATIENCE_SECONDS):
                await anext(aiter(events))
    else:
        before = agent.tool_changes
        await agent.call("grow")

        async def told():
            return agent.tool_changes > before

        await until(told, "no tools/list_changed arrived")
    if not agent.plan.get("denied"):
        names = await agent.tool_names()
        check(any(name.startswith(agent.prefix + "extra_") for name in names), f"no new tool among {names}")


STEPS = [
    list_tools,
    call_allowed,
    call_structured,
    call_large,
    call_denied,
    call_unknown,
    calls_in_parallel,
    resources,
    prompts,
    completion,
    progress,
    elicitation,
    sampling,
    mirrored_headers,
    cancellation,
    logging,
    list_changed,
]


def planned_call(call):
    async def step(agent):
        result = await agent.call(call["tool"], call.get("args"))
        if call.get("denied"):
            return check_denied(result, call["denied"])
        check(not result.is_error, f"error: {text_of(result)}")
        whole = result.model_dump_json(by_alias=True)
        check(call.get("contains", "") in whole, f"no {call.get('contains')} in {whole[:300]}")
        return len(whole)

    step.__name__ = f"call {call['tool']}"
    return step


async def run(verdict, name, act):
    started = time.monotonic()
    entry = {"step": name, "ok": False}
    try:
        with anyio.fail_after(STEP_SECONDS_MAX):
            detail = await act()
        entry["ok"] = True
        if detail is not None:
            entry["detail"] = detail
    except Exception as error:  # every failure of a step belongs in the verdict
        entry["error"] = f"{type(error).__name__}: {error}"
        entry["code"] = getattr(error, "code", None)
    entry["ms"] = round((time.monotonic() - started) * 1000)
    verdict["steps"].append(entry)
    return entry["ok"]


async def run_all(plan, verdict):
    agent = Agent(plan)

    async def connect():
        await agent.connect()
        verdict["protocol_version"] = agent.client.protocol_version
        wanted = plan.get("protocol_version")
        check(not wanted or wanted == verdict["protocol_version"], f"negotiated {verdict['protocol_version']}")
        return verdict["protocol_version"]

    # The stack must be entered and left in one task, so `connect` has no deadline of its own here.
    try:
        detail = await connect()
        verdict["steps"].append({"step": "connect", "ok": True, "detail": detail})
    except Exception as error:
        verdict["steps"].append({"step": "connect", "ok": False, "error": f"{type(error).__name__}: {error}"})
        return
    for call in plan.get("calls", []):
        step = planned_call(call)
        await run(verdict, step.__name__, lambda step=step: step(agent))
    if not plan.get("only_calls"):
        for step in STEPS:
            if step.__name__ not in plan.get("skip", []):
                await run(verdict, step.__name__, lambda step=step: step(agent))
    await agent.stack.aclose()


def hang_up(plan, verdict):
    """Ends the process when the client hangs: a cancelled scope would fight with the client's own."""

    def end():
        verdict["steps"].append({"step": "watchdog", "ok": False, "error": "the client hung"})
        finish(verdict)

    timer = threading.Timer(plan.get("watchdog_seconds", WATCHDOG_SECONDS), end)
    timer.daemon = True
    timer.start()


def finish(verdict):
    verdict["ok"] = all(step["ok"] for step in verdict["steps"])
    print(json.dumps(verdict), flush=True)
    os._exit(0 if verdict["ok"] else 1)


def main():
    if len(sys.argv) < 2:
        print("usage: py-client.py PLAN.json (or - for standard input)", file=sys.stderr)
        sys.exit(2)
    plan = json.load(sys.stdin if sys.argv[1] == "-" else open(sys.argv[1], encoding="utf-8"))
    transport = "stdio" if "command" in plan else "http"
    verdict = {"client": "py-client", "era": plan.get("era", "auto"), "transport": transport, "steps": []}
    hang_up(plan, verdict)
    try:
        anyio.run(run_all, plan, verdict)
    except BaseException as error:  # also an exception group from the client's own tasks
        verdict["steps"].append({"step": "close", "ok": False, "error": f"{type(error).__name__}: {error}"})
    finish(verdict)


if __name__ == "__main__":
    main()
