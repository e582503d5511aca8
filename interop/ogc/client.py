"""OGC API - Processes with tools that are not ours: python client.py ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL PAYLOADS

Each document is held to the schemas of the standard (18-062r2), which lie in `schemas` with their licence. OWSLib finds and runs
processes; openapi-spec-validator reads `/ogc/openapi.json`; Schemathesis makes requests of it (at least `OGC_REQUESTS`, 300 unless
told; `OGC_SEED` is the first seed) and takes any 5xx for a failure, and any answer that the document does not tell of.
"""

import base64
import contextlib
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

import openapi_spec_validator
import referencing
import yaml
from jsonschema import Draft4Validator
from owslib.ogcapi.processes import Processes
from referencing.jsonschema import DRAFT4

SCHEMAS = Path(__file__).parent / "schemas"
# Of these, one request may take what the machine has: a stream of 2^63 bytes, a sleep of years, a workflow.
NOT_FUZZED = "stream|nap|countdown|settle|smooth"

# No 5xx, and each answer is one that the document tells of.
FUZZ_CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


def main(*arguments: str) -> int:
    arithmetic, *_, payloads = arguments
    api = arithmetic.rsplit("/", 1)[0] + "/ogc"
    failed = 0
    for name, body in checks(api, Path(payloads)).items():
        try:
            body()
            print(f"ok {name}", flush=True)
        except Exception as problem:  # noqa: BLE001: every failure is a line of the report
            failed += 1
            print(f"not ok {name}: {str(problem)[:2000]!r}", flush=True)
            traceback.print_exc()
    return 1 if failed else 0


def checks(api: str, payloads: Path) -> dict:
    owslib = Processes(api)
    content = Path(payloads, "8193.bin").read_bytes()

    def execute(process: str, request: dict, prefer: str = "") -> "Answer":
        return ask("POST", f"{api}/processes/{process}/execution", request, {"Prefer": prefer} if prefer else {})

    def spawned(process: str, request: dict) -> str:
        answer = execute(process, request, "respond-async")
        same(answer.status, 201)
        return answer.valid("statusInfo")["jobID"]

    def ended(job: str) -> dict:
        while (status := ask("GET", f"{api}/jobs/{job}").valid("statusInfo"))["status"] in ("accepted", "running"):
            time.sleep(0.02)
        return status

    def processes() -> None:
        listed = ask("GET", f"{api}/processes").valid("processList")["processes"]
        same({"arithmetic-test", "echo-file", "matrix:echo"} - {process["id"] for process in listed}, set())

    def descriptions() -> None:
        for process in ask("GET", f"{api}/processes").json()["processes"]:
            (link,) = [link for link in process["links"] if link["rel"] == "self"]
            described = ask("GET", link["href"]).valid("process")
            same(described["id"], process["id"])

    def document() -> None:
        request = {"inputs": {"x": 1, "y": 2}, "response": "document"}
        same(execute("arithmetic-test", request).valid("results"), {"result": 3})

    def file() -> None:
        answer = execute("echo-file", {"inputs": {"data": base64.b64encode(content).decode()}, "response": "document"})
        same(base64.b64decode(answer.valid("results")["copy"]["value"]), content)

    def reference() -> None:
        request = {"inputs": {"data": {"href": f"{os.environ['INTEROP_ORIGIN']}/8193.bin"}}, "response": "document",
                   "outputs": {"copy": {"transmissionMode": "reference"}}}
        link = execute("echo-file", request).valid("results")["copy"]
        same(ask("GET", link["href"]).body, content)

    def job() -> None:
        job = spawned("arithmetic-test", {"inputs": {"x": 1, "y": 2}, "response": "document"})
        status = ended(job)
        same(status["status"], "successful")
        (link,) = [link for link in status["links"] if link["rel"].endswith("/results")]
        same(ask("GET", link["href"]).valid("results"), {"result": 3})

    def jobs() -> None:
        spawned("arithmetic-test", {"inputs": {"x": 1, "y": 2}})
        listed = ask("GET", f"{api}/jobs?processID=arithmetic-test&limit=1").valid("jobList")
        same([job["processID"] for job in listed["jobs"]], ["arithmetic-test"])

    def pages() -> None:
        for _ in range(3):
            spawned("arithmetic-test", {"inputs": {"x": 1, "y": 2}})
        for what, schema in (("jobs", "jobList"), ("processes", "processList")):
            url, seen = f"{api}/{what}?limit=1", []
            while url and len(seen) < 3:
                page = ask("GET", url).valid(schema)
                seen += [str(page[what][0])]
                url = next((link["href"] for link in page["links"] if link["rel"] == "next"), None)
            same(len(set(seen)), 3)

    def refusals() -> None:
        run = f"{api}/processes/arithmetic-test/execution"
        problem(ask("PUT", f"{api}/processes"), 405, "about:blank")
        problem(ask("POST", run, {"inputs": {"x": "1" * (17 << 20)}, "response": "document"}), 413, "about:blank")
        problem(ask("POST", run, {"response": "document"}, {"Content-Type": "text/plain"}), 415, "about:blank")

    def callbacks() -> None:
        """Results and statuses that are posted to who subscribed."""
        with listener() as (url, heard):
            subscriber = {f"{kind}Uri": f"{url}/{kind}" for kind in ("success", "failed", "inProgress")}
            for x, last in ((1, "/success"), (2**31 - 1, "/failed")):
                heard.clear()
                request = {"inputs": {"x": x, "y": 1}, "response": "document", "subscriber": subscriber}
                same(execute("arithmetic-test", request).status, 201)
                deadline = time.monotonic() + 60
                while last not in heard and time.monotonic() < deadline:
                    time.sleep(0.02)
                for path, body in heard.copy().items():
                    Answer(200, "application/json", body).valid("results" if path == "/success" else "statusInfo")
                same({last, "/inProgress"} >= heard.keys() and last in heard, True)

    def problem(answer: "Answer", status: int, kind: str) -> None:
        same((answer.status, answer.media_type), (status, "application/problem+json"))
        same(answer.valid("exception")["type"].endswith(kind), True)

    def not_ready() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # the job waits for data of somebody who says nothing
            href = f"http://127.0.0.1:{silent.getsockname()[1]}/never"
            job = spawned("echo-file", {"inputs": {"data": {"href": href}}})
            problem(ask("GET", f"{api}/jobs/{job}/results"), 404, "/result-not-ready")
            same(ask("DELETE", f"{api}/jobs/{job}").valid("statusInfo")["status"], "dismissed")

    def unsuccessful() -> None:
        largest = {"inputs": {"x": 2**31 - 1, "y": 1}}
        job = spawned("arithmetic-test", largest)
        same(ended(job)["status"], "failed")
        problem(ask("GET", f"{api}/jobs/{job}/results"), 422, "about:blank")
        problem(execute("arithmetic-test", largest), 422, "about:blank")

    def dismiss() -> None:
        job = spawned("arithmetic-test", {"inputs": {"x": 1, "y": 2}})
        ended(job)
        same(ask("DELETE", f"{api}/jobs/{job}").valid("statusInfo")["status"], "dismissed")
        problem(ask("GET", f"{api}/jobs/{job}"), 404, "/no-such-job")

    def with_owslib() -> None:
        found = {process["id"] for process in owslib.processes()}
        same("arithmetic-test" in found, True)
        same(list(owslib.process("arithmetic-test")["inputs"]), ["x", "y"])
        same(owslib.execute("arithmetic-test", inputs={"x": 1, "y": 2}, response="document"), {"result": 3})

    def owslib_job() -> None:
        told = owslib.execute("arithmetic-test", inputs={"x": 1, "y": 2}, response="document", async_=True)
        same(ended(told["jobID"])["status"], "successful")

    def openapi(version: str) -> dict:
        found = ask("GET", f"{api}/openapi.json?version={version}")
        same(found.media_type, f"application/vnd.oai.openapi+json;version={version}")
        openapi_spec_validator.validate(found.json())
        return found.json()

    rows = [[0.1, -0.0], [3.5, 16777216.0]]
    return {
        "landing": lambda: ask("GET", api).valid("landingPage"),
        "conformance": lambda: ask("GET", f"{api}/conformance").valid("confClasses"),
        "processes": processes,
        "descriptions": descriptions,
        "execute": lambda: same(execute("arithmetic-test", {"inputs": {"x": 1, "y": 2}}).body.strip(), b"3"),
        "document": document,
        "raw": lambda: same(execute("echo-file", {"inputs": {"data": base64.b64encode(content).decode()},
                                                  "response": "raw"}).body, content),
        "file": file,
        "reference": reference,
        "array": lambda: same(execute("matrix:echo", {"inputs": {"matrix": rows}}).json(),
                              [[0.1, 0.0], [3.5, 16777216.0]]),
        "job": job,
        "jobs": jobs,
        "pages": pages,
        "refusals": refusals,
        "callbacks": callbacks,
        "missing-process": lambda: problem(ask("GET", f"{api}/processes/none"), 404, "/no-such-process"),
        "missing-job": lambda: problem(ask("GET", f"{api}/jobs/{'0' * 32}"), 404, "/no-such-job"),
        "not-ready": not_ready,
        "failed": unsuccessful,
        "dismiss": dismiss,
        "owslib": with_owslib,
        "owslib-job": owslib_job,
        "openapi-30": lambda: openapi("3.0"),
        "openapi-31": lambda: openapi("3.1"),
        "fuzz": lambda: fuzz(openapi("3.1"), int(os.environ.get("OGC_REQUESTS", "300"))),
    }


def fuzz(document: dict, requests: int) -> None:
    """Requests of every operation, in so far as its service is one to be asked anything."""
    # No request leads to machines of others.
    here = {"type": "string", "enum": [f"{os.environ['INTEROP_ORIGIN']}/1.bin", "http://127.0.0.1:9/", "no address", ""]}
    # Answers are held to the schemas as they are, so requests have their own.
    schemas = document["components"]["schemas"]
    given = lambda part: json.loads(json.dumps(part).replace('"#/components/schemas/', '"#/components/schemas/given-'))
    schemas |= {f"given-{name}": given(schema) for name, schema in schemas.items()}
    schemas["given-link"]["properties"]["href"] = here
    subscriber = schemas["given-subscriber"]
    subscriber["properties"] = dict.fromkeys(subscriber["properties"], here)
    for operation in operations_of(document):
        if "requestBody" in operation:
            operation["requestBody"] = given(operation["requestBody"])
            # The gallery waits between its steps for as long as it is told.
            pauses(operation["requestBody"], {"type": "number", "enum": [0, 0.01]})
    processes = [name.split("/")[2] for name in document["paths"] if re.fullmatch(r"/processes/[^{/]*/execution", name)]
    for parameter in parameters(document):
        if parameter.get("name") == "processID" and parameter["in"] == "path":
            parameter["schema"] = {"type": "string", "enum": [name for name in processes if not re.search(NOT_FUZZED, name)]}
    operations = sum(len(path) for name, path in document["paths"].items() if not re.search(NOT_FUZZED, name))
    made, begun, seed = 0, time.monotonic(), int(os.environ.get("OGC_SEED", "1"))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "openapi.json")
        path.write_text(json.dumps(document))
        # An operation that takes nothing has one request only: the next seeds make what is missing.
        while made < requests:
            command = [str(Path(sys.executable).parent / "schemathesis"), "run", str(path),
                       "--url", document["servers"][0]["url"], "--exclude-path-regex", NOT_FUZZED,
                       "--checks", ",".join(FUZZ_CHECKS), "--phases", "fuzzing", "--seed", str(seed),
                       "--max-examples", str(max(2, (requests - made) // operations)), "--no-color", "--request-timeout", "60"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"seed {seed}: {done.stdout[-3000:]}{done.stderr[-1000:]}")
            made += sum(int(number) for number in re.findall(r"(\d+) generated", done.stdout))
            print(f"  schemathesis: seed {seed}, {made} requests of {operations} operations, {time.monotonic() - begun:.0f} s", flush=True)
            seed += 1
            same(made > 0, True)


def pauses(part, schema: dict) -> None:
    """Gives every input `pause` another schema."""
    for name, inner in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if name == "properties" and "pause" in inner:
            inner["pause"] = schema
        pauses(inner, schema)


@contextlib.contextmanager
def listener():
    """A server that is told of jobs: its address, and what was posted where."""
    heard = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()


def operations_of(document: dict) -> list[dict]:
    return [operation for path in document["paths"].values() for operation in path.values() if isinstance(operation, dict)]


def parameters(document: dict) -> list[dict]:
    shared = list(document["components"].get("parameters", {}).values())
    return shared + [parameter for operation in operations_of(document) for parameter in operation.get("parameters", [])]


class Answer:
    """What came back."""

    def __init__(self, status: int, media_type: str, body: bytes) -> None:
        self.status, self.media_type, self.body = status, media_type, body

    def json(self):
        return json.loads(self.body)

    def valid(self, schema: str):
        """The document, if it is one of the standard's."""
        if self.status >= 400 and schema != "exception":
            raise AssertionError(f"{self.status}: {self.body[:500]!r}")
        document = self.json()
        validator(schema).validate(document)
        return document


def ask(method: str, url: str, request: dict | None = None, headers: dict | None = None) -> Answer:
    data = None if request is None else json.dumps(request).encode()
    fields = {"Accept": "application/json, application/problem+json"} if "/data/" not in url else {}
    fields |= {"Content-Type": "application/json"} if data else {}
    # The raw form of a text is a text, unless JSON is asked for.
    if request is not None and "response" not in request:
        del fields["Accept"]
    asked = urllib.request.Request(url, data=data, method=method, headers=fields | (headers or {}))
    try:
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return Answer(answer.status, answer.headers["Content-Type"], answer.read())
    except urllib.error.HTTPError as answer:
        return Answer(answer.code, answer.headers["Content-Type"], answer.read())


def validator(name: str) -> Draft4Validator:
    return Draft4Validator({"$ref": f"{name}.yaml"}, registry=referencing.Registry(retrieve=schema))


def schema(name: str) -> referencing.Resource:
    """A schema of the standard. One is corrected: of a number, a string or a list, `oneOf` is never true, because an integer is
    a number and base64 is a string."""
    content = yaml.safe_load((SCHEMAS / name).read_text())
    if name == "inputValueNoObject.yaml":
        content["anyOf"] = content.pop("oneOf")
    return referencing.Resource.from_contents(content, default_specification=DRAFT4)


def same(found, wanted) -> None:
    if found != wanted:
        raise AssertionError(f"found {str(found)[:300]}, wanted {str(wanted)[:300]}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
