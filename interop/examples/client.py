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
FILES = {FILE: CONTENT, "grid.csv": b"1,2.5\n3,4\n", "a.txt": b"rail", "b.txt": b"joint"}
FETCHED = b"\x00"  # of the origin's file `1.bin`
TIMEOUT = 120  # seconds
EXAMPLES = ("cli", "python", "curl", "soap", "zeep", "java")
NO_ARRAY_FILE = ("soap", "zeep", "java")
# What the examples find in their environment; the command line and Python could have it from `fishplate login` too.
LOGIN = {"FISHPLATE_USER": "alice", **{f"FISHPLATE_{name}": os.environ[f"INTEROP_LOGIN_{name}"] for name in ("PASSWORD", "TOKEN")}}


def main(*arguments: str) -> int:
    add, echo, matrix, say, words = (url.split("?")[0] for url in arguments[:-1])
    asking, origin = (os.environ[f"INTEROP_{name}"].split("?")[0] for name in ("LOGIN_URL", "ORIGIN"))
    cases = {
        "numbers": (add, {"examples": "call", "x": "30", "y": "4"}, ["34"]),
        "file": (echo, {"examples": "call", "data:file": FILE, "data": "", "data:url": ""}, CONTENT),
        "array": (matrix, {"examples": "echo", "matrix": "1 2.5\n3 4"}, ["2.5"]),
        "text": (say, {"examples": "call", "text": HARD, "number": "2.5", "loud:box": "1", "loud": "true"}, [f"{HARD}|2.5|true"]),
        "unticked": (say, {"examples": "call", "text": "", "number": "2.5", "loud:box": "1"}, ["|2.5|false"]),
        "url": (echo, {"examples": "call", "data": "", "data:url": f"{origin}/1.bin"}, FETCHED),
        "array-file": (matrix, {"examples": "echo", "matrix": "", "matrix:file": "grid.csv"}, ["2.5"]),
        "several": (words, {"examples": "call", "word": f"{HARD}\n two", "part:file": ["a.txt", "b.txt"]}, [f"{HARD}| two|railjoint"]),
        "login": (asking, {"examples": "call", "x": "30", "y": "4"}, ["34"]),
    }
    failed = 0
    for case, (url, query, wanted) in cases.items():
        login = LOGIN if case == "login" else {}
        examples = shown(f"{url}?{urllib.parse.urlencode(query, doseq=True)}", login)
        for name in EXAMPLES:
            try:
                if case == "array-file" and name in NO_ARRAY_FILE:
                    if "can't be given so" not in examples[name]:
                        raise AssertionError("it does not say that it can't be given")
                else:
                    check(name, examples[name], wanted, login)
                print(f"ok {case} {name}", flush=True)
            except Exception as problem:  # noqa: BLE001: every failure is a line of the report
                failed += 1
                print(f"not ok {case} {name}: {problem!r}", flush=True)
                print(f"{examples.get(name)}\n{problem}", file=sys.stderr)
    return 1 if failed else 0


def shown(address: str, login: dict[str, str]) -> dict[str, str]:
    """The examples at an address, by name, as somebody copies them."""
    fields = {"Authorization": f"Bearer {login['FISHPLATE_TOKEN']}"} if login else {}
    with urllib.request.urlopen(urllib.request.Request(address, headers=fields), timeout=30) as answer:
        page = answer.read().decode()
    found = re.findall(r'<pre data-example="(\w+)"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in found}


def check(name: str, text: str, wanted: list[str] | bytes, login: dict[str, str]) -> None:
    """Texts of which one must be told; or the bytes of a file."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for given, content in FILES.items():
            (folder / given).write_bytes(content)
        said = run(command(name, text, folder), folder, login)
        # The command writes an output to a file.
        outputs = [path.read_bytes() for path in folder.iterdir() if path.name not in FILES and path.suffix != ".java"]
    if wanted in outputs:
        return
    for one in outputs:
        said += one.decode(errors="replace")
    told = [said, html.unescape(said), " ".join(strings(said))]
    if isinstance(wanted, bytes):
        # A file that the package gives is told of with its size.
        about = f"{len(wanted)} "
        wanted = [base64.b64encode(wanted).decode(), repr(wanted), *([about] if name == "python" else [])]
    if not any(one in text for one in wanted for text in told):
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


def run(words: list[str], folder: Path, login: dict[str, str]) -> str:
    path = f"{os.environ['EXAMPLES_BINARIES']}:{os.environ['PATH']}"
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path, **login}, capture_output=True,
                          timeout=TIMEOUT, check=False)
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}{said}")
    return said


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
