"""Tools of assistants with the official Python SDK: python client.py FISHPLATE

Both transports, each with the revision of 2026-07-28 and with the handshake of those before, against a server of its own.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import traceback
import urllib.request
from pathlib import Path
from typing import Any, Literal

from mcp import MCPError, StdioServerParameters
from mcp.client import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Request, Result

SERVICES = {
    "add": "name = 'add'\ntitle = 'Adds'\ncommand = './add.sh [in val x:int] [in val y:int] > [out file result:int]'\n",
    "turn": "name = 'turn'\ncommand = './turn.sh [in file text:raw] > [out file turned:raw]'\n"
            "[input.text]\nmedia_type = 'text/plain'\n[output.turned]\nmedia_type = 'text/plain'\n",
    "hold": "name = 'hold'\ncommand = './hold.sh [in val name:string] > [out file said:raw]'\n",
}
PROGRAMS = {
    "add": "echo $(($1 + $2))",
    "turn": "rev \"$1\"",
    "hold": "until [ -e \"$(dirname \"$0\")/$1\" ]; do sleep 0.05; done; echo held",
}
TASKS = "io.modelcontextprotocol/tasks"


def main(binary: str) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fishplate-mcp-") as scratch, server(binary, Path(scratch)) as url:
        checks = {f"{transport} {mode} {check.__name__}": driven(check, binary, url, Path(scratch), transport, mode)
                  for transport in ("http", "stdio") for mode in ("auto", "legacy")
                  for check in (tools, call, wrong, unknown, file, path, large, long, cancelled)}
        checks |= {f"{transport} task": task(url, binary, Path(scratch), transport) for transport in ("http", "stdio")}
        checks |= {check.__name__: asyncio.to_thread(check, url, Path(scratch)) for check in (tasks, foreign_origin, other_method)}
        for name, check in checks.items():
            try:
                asyncio.run(asyncio.wait_for(check, 120))
                print(f"ok {name}", flush=True)
            except Exception as problem:  # noqa: BLE001: every failure is a line of the report
                failed += 1
                print(f"not ok {name}: {str(problem)[:2000]!r}", flush=True)
                traceback.print_exc()
    return 1 if failed else 0


@contextlib.contextmanager
def server(binary: str, scratch: Path):
    """A server whose calls wait for three seconds; gives its address."""
    for name, text in SERVICES.items():
        (scratch / f"{name}.toml").write_text(text)
        program = scratch / f"{name}.sh"
        program.write_text(f"#!/bin/sh\n{PROGRAMS[name]}\n")
        program.chmod(0o755)
    (scratch / "own").mkdir()
    (scratch / "own/a.txt").write_text("own")
    (scratch / "secret.txt").write_text("secret")
    files = [str(scratch / f"{name}.toml") for name in SERVICES]
    process = subprocess.Popen(
        [binary, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), "--limit", "mcp_wait=3s", *files],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        lines = [process.stdout.readline().split() for _ in files]
        yield lines[0][1].rsplit("/", 1)[0]
    finally:
        process.terminate()
        process.wait(timeout=30)


class Begun(Result):
    """What is answered instead of a tool's result: a task."""

    result_type: Literal["task"]
    task_id: str
    status: str


class State(Result):
    status: str
    result: dict[str, Any] | None = None


class AskTask(Request[dict[str, Any], Literal["tasks/get"]]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """The extension for tasks, as a client of the SDK takes part in it: a call that is answered with one asks until it has its result."""

    identifier = TASKS

    def __init__(self, release: Path) -> None:
        self.release, self.heard = release, []

    def claims(self) -> list[ResultClaim]:
        return [ResultClaim(result_type="task", model=Begun, resolve=self.resolve)]

    async def resolve(self, begun: Begun, context) -> CallToolResult:
        self.heard.append(begun.status)
        self.release.touch()
        while True:
            state = await context.session.send_request(AskTask(method="tasks/get", params={"taskId": begun.task_id}), State)
            self.heard.append(state.status)
            if state.status != "working":
                return CallToolResult.model_validate(state.result)
            await asyncio.sleep(0.1)


async def task(url: str, binary: str, scratch: Path, transport: str) -> None:
    """A call that takes longer than a moment is a task, and ends as any other call."""
    tasks = Tasks(scratch / f"{transport}-task")
    async with Client(target(binary, url, scratch, transport), extensions=[tasks]) as client:
        answer = await client.call_tool("hold", {"name": tasks.release.name})
        same(answer.structured_content["outputs"]["said"]["text"], "held\n")
    same((tasks.heard[0], tasks.heard[-1]), ("working", "completed"))


def target(binary: str, url: str, scratch: Path, transport: str):
    if transport == "http":
        return f"{url}/mcp"
    words = ["mcp", url, "--directory", str(scratch / "own"), "--wait", "3s"]
    return stdio_client(StdioServerParameters(command=binary, args=words))


async def driven(check, binary: str, url: str, scratch: Path, transport: str, mode: str) -> None:
    async with Client(target(binary, url, scratch, transport), mode=mode) as client:
        await check(client, scratch, transport == "stdio")


async def tools(client: Client, *_: object) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    same(set(listed), {"add", "turn", "hold", "job_status", "job_results", "job_log", "job_cancel"})
    schema = listed["add"].input_schema
    same(schema["required"], ["x", "y"])
    same(schema["properties"]["x"]["type"], "integer")
    same(listed["add"].output_schema["properties"]["outputs"]["properties"]["result"]["type"], "integer")


async def call(client: Client, *_: object) -> None:
    await client.list_tools()
    answer = await client.call_tool("add", {"x": 1, "y": 2})
    same((answer.is_error or False, answer.structured_content["outputs"]), (False, {"result": 3}))
    same(json.loads(answer.content[0].text)["outputs"], {"result": 3})


async def wrong(client: Client, *_: object) -> None:
    for arguments, told in (({"x": "one", "y": 2}, "InvalidValue"), ({"x": 1}, "MissingParameter"),
                            ({"x": 1, "y": 2, "z": 3}, "UnexpectedParameter")):
        answer = await client.call_tool("add", arguments)
        same((answer.is_error, told in answer.content[0].text), (True, True), answer.content[0].text)
    answer = await client.call_tool("job_status", {"job": "add/00000000000000000000000000000000"})
    same((answer.is_error, "NoSuchJob" in answer.content[0].text), (True, True))


async def unknown(client: Client, *_: object) -> None:
    for asked in (client.call_tool("nothing", {}), client.read_resource("fishplate://results/add/1/result"),
                  client.read_resource("file:///etc/passwd")):
        try:
            await asked
        except MCPError:
            continue
        raise AssertionError("no error")


async def file(client: Client, *_: object) -> None:
    for given in ("abc", {"text": "abc"}, {"base64": "YWJj"}):
        answer = await client.call_tool("turn", {"text": given})
        told = answer.structured_content["outputs"]["turned"]
        same((told["text"].strip(), told["mediaType"]), ("cba", "text/plain"))


async def path(client: Client, scratch: Path, is_stdio: bool) -> None:
    answer = await client.call_tool("turn", {"text": {"path": "a.txt"}})
    same(answer.is_error or False, not is_stdio)
    for outside in ("../secret.txt", str(scratch / "secret.txt"), "/etc/passwd"):
        answer = await client.call_tool("turn", {"text": {"path": outside}})
        same((answer.is_error, "InvalidValue" in answer.content[0].text), (True, True))


async def large(client: Client, *_: object) -> None:
    text = "0123456789" * 5000
    answer = await client.call_tool("turn", {"text": text})
    told = answer.structured_content["outputs"]["turned"]
    same((told["size"] // 10, "text" in told), (5000, False))
    same(urllib.request.urlopen(told["href"]).read().decode().strip(), text[::-1])
    (link,) = [block for block in answer.content if block.type == "resource_link"]
    (contents,) = (await client.read_resource(link.uri)).contents
    same((contents.text.strip(), contents.mime_type), (text[::-1], "text/plain"))
    again = await client.call_tool("turn", {"text": {"href": told["href"]}})
    same(again.is_error or False, False, again.content[0].text)


async def long(client: Client, scratch: Path, *_: object) -> None:
    name = f"go-{id(client)}"
    heard = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, message))

    answer = await client.call_tool("hold", {"name": name}, progress_callback=progress)
    told = answer.structured_content
    same((told["job"]["ended"], "outputs" in told), (False, False))
    same((len(heard) > 0, sorted(heard, key=lambda it: it[0]) == heard), (True, True))
    job = {"job": told["job"]["job"]}
    same((await client.call_tool("job_status", job)).structured_content["state"], "running")
    (scratch / name).touch()
    answer = await client.call_tool("job_results", job)
    same(answer.structured_content["outputs"]["said"]["text"], "held\n")
    log = (await client.call_tool("job_log", job | {"stream": "stderr"})).structured_content
    same((log["text"], log["end"]), ("", True))


async def cancelled(client: Client, *_: object) -> None:
    answer = await client.call_tool("hold", {"name": "never"})
    job = {"job": answer.structured_content["job"]["job"]}
    await client.call_tool("job_cancel", job)
    while not (status := (await client.call_tool("job_status", job)).structured_content)["ended"]:
        await asyncio.sleep(0.05)
    same(status["state"], "killed")
    same((await client.call_tool("job_results", job)).is_error, True)


def post(url: str, method: str, params: dict, headers: dict | None = None) -> dict:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
              "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} | (headers or {})
    request = urllib.request.Request(f"{url}/mcp", json.dumps(body).encode(), fields)
    return json.load(urllib.request.urlopen(request))


def tasks(url: str, scratch: Path) -> None:
    """A long call is a task for a client that knows tasks: it is polled, and another one is cancelled."""
    begun = post(url, "tools/call", {"name": "hold", "arguments": {"name": "task"}}, {"Mcp-Name": "hold"})["result"]
    same((begun["resultType"], begun["status"]), ("task", "working"))
    task = {"taskId": begun["taskId"]}
    name = {"Mcp-Name": begun["taskId"]}
    same(post(url, "tasks/get", task, name)["result"]["status"], "working")
    (scratch / "task").touch()
    while (got := post(url, "tasks/get", task, name)["result"])["status"] == "working":
        pass
    same((got["status"], got["result"]["structuredContent"]["outputs"]["said"]["text"]), ("completed", "held\n"))
    begun = post(url, "tools/call", {"name": "hold", "arguments": {"name": "never"}}, {"Mcp-Name": "hold"})["result"]
    task, name = {"taskId": begun["taskId"]}, {"Mcp-Name": begun["taskId"]}
    post(url, "tasks/cancel", task, name)
    while (got := post(url, "tasks/get", task, name)["result"])["status"] == "working":
        pass
    same(got["status"], "cancelled")


def refused(status: int, url: str, **more: object) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(f"{url}/mcp", **more))
    except urllib.error.HTTPError as error:
        same(error.code, status)
    else:
        raise AssertionError("it was taken")


def foreign_origin(url: str, _: Path) -> None:
    refused(403, url, data=b"{}", headers={"Origin": "http://evil.example", "Content-Type": "application/json"})


def other_method(url: str, _: Path) -> None:
    refused(405, url)


def same(found: object, wanted: object, about: object = "") -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r} {about}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
