"""The conformance suite of the Model Context Protocol: python client.py NODE SUITE FISHPLATE

All of its scenarios for servers, against a server of its own whose services are called as the suite's own server's, where a program
can be what is asked for.
"""

import base64
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
WAV = b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
SERVICES = {
    "test_simple_text": ("text/plain", "echo 'This is a simple text response for testing.'"),
    "test_image_content": ("image/png", 'cat "$(dirname "$0")/dot.png"'),
    "test_audio_content": ("audio/wav", 'cat "$(dirname "$0")/still.wav"'),
    "test_error_handling": ("text/plain", "echo 'This tool intentionally returns an error for testing' >&2; exit 1"),
    "test_tool_with_progress": ("text/plain", "for step in 0 1 2 3; do echo \"step $step of 3\"; sleep 1.2; done"),
}
PROGRESS = "[progress]\npattern = 'step (\\d+) of (\\d+)'\n"

# What fails, and why. If one of these passes, the suite's run fails, so that it is taken out here.
RESOURCES = "it asks for resources of its own server (test://...); ours are results and logs of jobs, which interop/mcp reads"
SUBSCRIPTIONS = "what changes is asked for: nothing is kept between requests"
EMBEDDED = "small files stand in the answer's JSON, large ones are links"
SESSIONS = "no session is kept, so nothing is told outside of an answer and none is resumed"
LOGGING = "a level would have to be kept between requests; what a program writes is told by job_log"
ASKING = "a program asks its caller nothing while it runs"
PROMPTS = "there are no prompts, and what is completed belongs to them"
EXPECTED = {
    "tools-call-embedded-resource": EMBEDDED,
    "tools-call-mixed-content": EMBEDDED,
    "logging-set-level": LOGGING,
    "tools-call-with-logging": LOGGING,
    "tools-call-sampling": ASKING,
    "tools-call-elicitation": ASKING,
    "elicitation-sep1034-defaults": ASKING,
    "elicitation-sep1330-enums": ASKING,
    "json-schema-2020-12": "a tool's schema is made of its parameters, whose types have no definitions ($defs)",
    "resources-read-text": RESOURCES,
    "resources-read-binary": RESOURCES,
    "resources-templates-read": RESOURCES,
    "resources-subscribe": SUBSCRIPTIONS,
    "resources-unsubscribe": SUBSCRIPTIONS,
    "server-sse-polling": SESSIONS,
    "server-sse-multiple-streams": SESSIONS,
    "completion-complete": PROMPTS,
    "prompts-list": PROMPTS,
    "prompts-get-simple": PROMPTS,
    "prompts-get-with-args": PROMPTS,
    "prompts-get-embedded-resource": PROMPTS,
    "prompts-get-with-image": PROMPTS,
}


def main(node: str, suite: str, binary: str) -> int:
    with tempfile.TemporaryDirectory(prefix="fishplate-mcp-") as scratch, server(binary, Path(scratch)) as url:
        expected, results = Path(scratch, "expected.yaml"), Path(scratch, "results")
        expected.write_text(json.dumps({"server": list(EXPECTED)}))  # JSON is YAML
        done = subprocess.run([node, suite, "server", "--suite", "all", "--url", f"{url}/mcp", "--expected-failures", str(expected),
                               "--output-dir", str(results)], capture_output=True, text=True, check=False, timeout=120)
        report(results)
    if done.returncode == 0:
        print("ok expected-failures")
    else:
        print(f"not ok expected-failures: {done.stdout[-1500:]!r}")
        print(done.stderr, file=sys.stderr)
    return done.returncode


def report(results: Path) -> None:
    """A line for each scenario; what is expected to fail has its reason. As the suite does, a warning is taken as a failure."""
    for path in sorted(results.glob("server-*/checks.json")):
        scenario = path.parent.name.removeprefix("server-")[:-len("-2026-11-27T05-46-38-054Z")]
        failed = [check for check in json.loads(path.read_text()) if check["status"] in ("FAILURE", "WARNING")]
        if not failed:
            print(f"ok {scenario}")
        elif scenario in EXPECTED:
            print(f"left out {scenario}: {EXPECTED[scenario]}")
        else:
            print(f"not ok {scenario}: {'; '.join(check.get('errorMessage', check['id']) for check in failed)!r}")


@contextlib.contextmanager
def server(binary: str, scratch: Path):
    """A server of those services; gives its address."""
    (scratch / "dot.png").write_bytes(PNG)
    (scratch / "still.wav").write_bytes(WAV)
    files = []
    for name, (media_type, script) in SERVICES.items():
        program, file = scratch / f"{name}.sh", scratch / f"{name}.toml"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        progress = PROGRESS if "progress" in name else ""
        file.write_text(f"name = '{name}'\ntitle = '{name}'\ncommand = './{name}.sh > [out file content:raw]'\n"
                        f"[output.content]\nmedia_type = '{media_type}'\n{progress}")
        files.append(str(file))
    process = subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), *files],
                               stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        lines = [process.stdout.readline().split() for _ in files]
        yield lines[0][1].rsplit("/", 1)[0]
    finally:
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
