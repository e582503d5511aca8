"""The calls that a service's page shows, each run as it stands there: client.py URL... PAYLOADS"""

import base64
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

# It means something to shells, to XML, JSON and Python, and is text all the same.
HARD = "it's \"5 $HOME\" `id` \\n <&> ä \\"
FILE = "it's a $file.txt"
CONTENT = b"rail & joint\n\x00\xff"
TIMEOUT = 120  # seconds
EXAMPLES = ("cli", "python", "curl", "soap", "zeep", "java")


def main(*arguments: str) -> int:
    add, echo, matrix, say = (url.split("?")[0] for url in arguments[:-1])
    encoded = base64.b64encode(CONTENT).decode()
    cases = {
        "numbers": (add, {"examples": "call", "x": "30", "y": "4"}, ["34"]),
        "file": (echo, {"examples": "call", "data:file": FILE}, [encoded, repr(CONTENT)]),
        "array": (matrix, {"examples": "echo", "matrix": "1 2.5\n3 4"}, ["2.5"]),
        "text": (say, {"examples": "call", "text": HARD, "number": "2.5", "loud": "true"}, [f"{HARD}|2.5|true"]),
    }
    failed = 0
    for case, (url, query, wanted) in cases.items():
        examples = shown(f"{url}?{urllib.parse.urlencode(query)}")
        for name in EXAMPLES:
            try:
                check(name, examples[name], wanted)
                print(f"ok {case} {name}", flush=True)
            except Exception as problem:  # noqa: BLE001: every failure is a line of the report
                failed += 1
                print(f"not ok {case} {name}: {problem!r}", flush=True)
                print(f"{examples.get(name)}\n{problem}", file=sys.stderr)
    return 1 if failed else 0


def shown(address: str) -> dict[str, str]:
    """The examples at an address, by name, as somebody copies them."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        page = answer.read().decode()
    found = re.findall(r'<pre data-example="(\w+)"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in found}


def check(name: str, text: str, wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / FILE).write_bytes(CONTENT)
        said = run(command(name, text, folder), folder)
        # The command writes an output to a file.
        outputs = [path.read_bytes() for path in folder.iterdir() if path.name != FILE and path.suffix != ".java"]
    if CONTENT in outputs:
        return
    for one in outputs:
        said += one.decode(errors="replace")
    told = [said, html.unescape(said), " ".join(strings(said))]
    # A file that the package gives is told of with its size.
    about = f"{len(CONTENT)} " if name == "python" and wanted[0] == base64.b64encode(CONTENT).decode() else None
    if not any(one in text for one in wanted for text in told) and not (about and about in said):
        raise AssertionError(f"{wanted[0]!r} is not in {said!r}")


def strings(said: str) -> list[str]:
    """The texts of an answer in JSON."""
    try:
        document = json.loads(said)
    except ValueError:
        return []
    if not isinstance(document, dict):
        return [said]
    return [value if isinstance(value, str) else json.dumps(value) for value in document.values()]


def command(name: str, text: str, folder: Path) -> list[str]:
    match name:
        case "python":
            return [os.environ["EXAMPLES_PYTHON"], "-c", text]
        case "zeep":
            return [os.environ["EXAMPLES_ZEEP"], "-c", text]
        case "java":
            (folder / "Call.java").write_text(text)
            return ["java", "-XX:TieredStopAtLevel=1", "Call.java"]
        case _:
            return ["bash", "-c", text]


def run(words: list[str], folder: Path) -> str:
    path = f"{os.environ['EXAMPLES_BINARIES']}:{os.environ['PATH']}"
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True,
                          timeout=TIMEOUT, check=False)
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}{said}")
    return said


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
