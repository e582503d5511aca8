"""Services as descriptions of others, and descriptions of others as services: python client.py FISHPLATE ADD ECHO SAY GALLERY PAYLOADS

What `fishplate export` makes of a service is run by cwltool and bosh; what `fishplate import` makes of a description is served and
called, and gives the very bytes that cwltool or bosh make with the same description.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import cwltool.main
from boutiques import bosh

HERE = Path(__file__).resolve().parent
# It means something to shells and to JSON.
HARD = "it's \"5 $HOME\" `id` <&> ä; *"
LINES = "10;rail\n9;joint\n11;bolt\n"
TIMEOUT = 120  # seconds


def main(binary: str, *arguments: str) -> int:
    # Descriptions of services call `fishplate`.
    os.environ["PATH"] = f"{Path(binary).parent}:{os.environ['PATH']}"
    add, echo, say, gallery = (url.split("?")[0] for url in arguments[:-1])
    data = Path(arguments[-1], "8193.bin")
    exported = {
        "numbers": (add, {"x": 1, "y": 2}, {"result": b"3\n"}),
        "file": (echo, {"data": data}, {"copy": data.read_bytes()}),
        "text": (say, {"text": HARD, "number": 2.5, "loud": False}, {"said": f"{HARD}|2.5|false".encode()}),
        "several": (gallery, {"n": 3, "word": "rail"}, {"count": b"9\n", "mesh": "mesh/a.stl", "folder": "inner/words.txt"}),
    }
    with tempfile.TemporaryDirectory(prefix="fishplate-descriptions-") as scratch:
        lines, more = Path(scratch, "lines.txt"), Path(scratch, "more.log")
        lines.write_text(LINES)
        more.write_text("fishplate\n")
        imported = {
            "revtool.cwl": ({"input": lines}, "output"),
            "sorttool.cwl": ({"reverse": True, "input": lines}, "output"),
            "wc-tool.cwl": ({"file1": lines}, "output"),
            "touch.cwl": ({"name": "made.txt"}, "empty_file"),
            "sort.json": ({"input": lines, "numeric": True, "key": 1, "separator": ";"}, "sorted"),
        }
        checks = {f"export {kind} {name}": lambda kind=kind, case=case: check_export(kind, *case)
                  for kind in RUN for name, case in exported.items()}
        with service_of(Path(scratch), imported) as urls:
            checks |= {f"import {name}": lambda name=name, case=case: check_import(urls[name], name, *case)
                       for name, case in imported.items()}
            return report(checks)


def report(checks: dict) -> int:
    failed = 0
    for name, check in checks.items():
        try:
            with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
                check()
            print(f"ok {name}", flush=True)
        except (Exception, SystemExit) as problem:  # noqa: BLE001: every failure is a line of the report
            failed += 1
            print(f"not ok {name}: {str(problem)[:2000]!r}", flush=True)
            traceback.print_exc()
    return 1 if failed else 0


def fishplate(*words: str) -> str:
    done = subprocess.run(["fishplate", *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        raise AssertionError(f"fishplate {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def check_export(kind: str, url: str, inputs: dict, expected: dict) -> None:
    fishplate("export", kind, url, "-o", "description")
    outputs = RUN[kind](Path("description"), inputs)
    for name, wanted in expected.items():
        got = outputs[name]
        match wanted:
            case bytes():
                same(got.read_bytes(), wanted)
            case _:
                same((got / wanted).exists(), True)


def check_import(url: str, name: str, inputs: dict, output: str) -> None:
    theirs = RUN["cwl" if name.endswith(".cwl") else "boutiques"](HERE / name, inputs)[output].read_bytes()
    words = [f"{key}:{value}" if isinstance(value, Path) else f"{key}={str(value).lower() if value is True else value}"
             for key, several in inputs.items() for value in (several if isinstance(several, list) else [several])]
    fishplate("call", url, *words, f"out:{output}=ours")
    same(Path("ours").read_bytes(), theirs)


@contextlib.contextmanager
def service_of(scratch: Path, descriptions):
    """A server of what is imported; gives the address of each."""
    files = []
    for name in descriptions:
        kind = "cwl" if name.endswith(".cwl") else "boutiques"
        files.append(str(scratch / f"{name}.toml"))
        fishplate("import", kind, str(HERE / name), "-o", files[-1])
    with open(scratch / "log", "w") as log:
        server = subprocess.Popen(["fishplate", "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), *files],
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            told = dict(server.stdout.readline().split() for _ in descriptions)
            yield {name: told[Path(name).stem] for name in descriptions}
        finally:
            server.terminate()
            server.wait(timeout=30)


def run_cwl(tool: Path, inputs: dict) -> dict:
    """Outputs by name: paths, or lists of such."""
    def said(value: object) -> object:
        if isinstance(value, list):
            return [said(one) for one in value]
        return {"class": "File", "path": str(value)} if isinstance(value, Path) else value

    Path("job.json").write_text(json.dumps({key: said(value) for key, value in inputs.items()}))
    told, problems = io.StringIO(), io.StringIO()
    words = ["--no-container", "--preserve-environment", "PATH", "--outdir", "out", str(tool), "job.json"]
    if cwltool.main.main(words, stdout=told, stderr=problems) != 0:
        raise AssertionError(problems.getvalue())

    def given(value: object) -> object:
        return [given(one) for one in value] if isinstance(value, list) else Path(value["path"])

    return {key: given(value) for key, value in json.loads(told.getvalue()).items()}


def run_boutiques(descriptor: Path, inputs: dict) -> dict:
    """The same."""
    def said(value: object) -> object:
        return [said(one) for one in value] if isinstance(value, list) else str(value) if isinstance(value, Path) else value

    described = json.loads(descriptor.read_text())
    # A choice of texts is what `bool` is there.
    texts = {it["id"] for it in described["inputs"] if it["type"] == "String"}
    values = {key: str(value).lower() if key in texts and isinstance(value, bool) else said(value) for key, value in inputs.items()}
    Path("invocation.json").write_text(json.dumps(values))
    bosh(["validate", str(descriptor)])
    done = bosh(["exec", "launch", str(descriptor), "invocation.json", "--skip-data-collection"])
    if done.exit_code != 0:
        raise AssertionError(f"{done.shell_command}: {done.stderr} {done.error_message}")
    outputs = {it["id"]: it for it in described["output-files"]}
    found: dict = {}
    for name, output in outputs.items():
        files = [Path(file.file_name) for file in done.output_files if file.boutiques_name == name]
        found[name] = files if output.get("list") else files[0] if files else None
    return found


RUN = {"cwl": run_cwl, "boutiques": run_boutiques}


def same(got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"{got!r}, not {expected!r}"[:1000])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
