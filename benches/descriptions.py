#!/usr/bin/env python3
"""How much of what others have described imports, and does the same afterwards.

    benches/descriptions.py --niwrap DIR --cwl DIR [--fishplate target/debug/fishplate] [--json FILE]

DIR are clones of https://github.com/styx-api/niwrap (Boutiques descriptors) and of
https://github.com/common-workflow-language/cwl-v1.2 (the conformance tests); neither is needed for the
other, and nothing is fetched. Needs Python packages: boutiques (for --niwrap), PyYAML (for --cwl).

- NiWrap: every descriptor is imported. Of those with a service file, the program is replaced by one that
  notes its arguments; a call with the required inputs only, and one with all of them, must note what bosh
  makes of the same values.
- CWL: every required test of a CommandLineTool. Its service is called with the test's inputs, and what comes
  back is compared with what the test expects: contents of files and directories, texts, and arguments (names of
  files are ours, so they are compared under the names that files have here).
"""

import argparse
import base64
import collections
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

# Seconds that a call may take.
CALL_TIME = 20


class Server:
    """A server of service files, or of those in directories, on a port of its own."""

    def __init__(self, binary, services, data, path=""):
        environment = dict(os.environ)
        environment["PATH"] = f"{path}:{environment['PATH']}" if path else environment["PATH"]
        self.process = subprocess.Popen(
            [binary, "serve", *services, "--listen", "127.0.0.1:0", "--data", data],
            stdout=subprocess.PIPE, stderr=open(f"{data}.log", "w"), text=True, env=environment)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the server did not start:\n" + Path(f"{data}.log").read_text()[-2000:])
        self.base = re.search(r"http://[^/\s]+", line).group(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def call(self, name, inputs):
        """The outputs of a call, or what the server says against it."""
        body = json.dumps({"inputs": inputs, "response": "document"}).encode()
        request = urllib.request.Request(
            f"{self.base}/ogc/processes/{name}/execution", body,
            {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIME) as answer:
                text = answer.read()
                return (json.loads(text) if text else {}), None
        except urllib.error.HTTPError as error:
            told = json.loads(error.read() or b"{}")
            return None, told.get("detail") or str(error)


def imported(binary, kind, path, to):
    """What `fishplate import` says."""
    told = subprocess.run([binary, "import", kind, path, "-o", to, "--json"],
                          capture_output=True, text=True)
    if not told.stdout:
        return {"whole": False, "file": None, "refused": told.stderr.strip(), "gaps": []}
    return json.loads(told.stdout)


def counted(reports):
    """Whole, with gaps, none; and the reasons of what was lost, each counted once a description."""
    counts, reasons = collections.Counter(), collections.Counter()
    for report in reports:
        kind = "whole" if report["whole"] else "with gaps" if report["file"] else "no service file"
        counts[kind] += 1
        lost = {re.sub(r"`[^`]*`|after \S+|\d+|\"[^\"]*\"", "…", gap["reason"])
                for gap in report["gaps"] if gap["lost"]}
        reasons.update(lost or ({report["refused"]} if report.get("refused") else ()))
    return counts, reasons


# --- NiWrap -------------------------------------------------------------------------------------


def value_of(described, number):
    """A value of an input, as bosh takes it."""
    if described["type"] == "Flag":
        return True
    if described.get("value-choices"):
        return described["value-choices"][0]
    if described["type"] == "Number":
        least, most = described.get("minimum"), described.get("maximum")
        value = least if least is not None else min(most, 1) if most is not None else 1
        if described.get("exclusive-minimum"):
            value = value + 1 if most is None else (value + most) / 2
        return int(value) if described.get("integer") or value == int(value) else value
    return f"v{number}"


def values_of(descriptor, names, everything):
    """The inputs of a call: as bosh takes them, and as the service does."""
    theirs, ours = {}, {}
    for number, described in enumerate(descriptor["inputs"]):
        is_flag = described["type"] == "Flag"
        needed = not described.get("optional") and not is_flag and "default-value" not in described
        name = names(described["id"])
        if not (needed or everything) or not isinstance(described["type"], str):
            continue
        count = max(described.get("min-list-entries", 0), 1)
        if everything and described.get("list"):
            count = max(count, min(2, described.get("max-list-entries", 2)))
        is_list = described.get("list") and described.get("max-list-entries") != 1
        if described["type"] == "File":
            called = [f"{name}/{n + 1}" for n in range(count)] if is_list else [name]
            sent = [{"value": "x", "encoding": "utf-8"}] * count
        else:
            called = sent = [value_of(described, number)] * count
        if described["type"] == "String" and not described.get("value-choices"):
            called = sent = [str(value) for value in called]
        if described["type"] == "String":
            sent = [str(value) for value in sent]
        theirs[described["id"]] = called if described.get("list") else called[0]
        ours[name] = sent if is_list else sent[0]
    return theirs, ours


def words_of_bosh(path, values):
    """The words that bosh makes of an invocation."""
    from boutiques.localExec import LocalExecutor

    executor = LocalExecutor(str(path), None, {
        "forcePathType": True, "debug": False, "changeUser": True, "stream": False,
        "skipDataCollect": True, "sandbox": False, "provenance": None, "imagePath": None,
        "noContainer": True})
    executor.in_dict = dict(values)
    for described in executor.inputs:
        if described.get("default-value") is not None:
            executor.in_dict.setdefault(described["id"], described["default-value"])
    return shlex.split(executor._generateCmdLineFromInDict())


NOTE = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done > {file}
"""


def niwrap(binary, source, work):
    paths = sorted(Path(source).rglob("boutiques.json"))
    services, programs = work / "services", work / "bin"
    services.mkdir(), programs.mkdir()
    noted = work / "noted"
    reports = []
    for number, path in enumerate(paths):
        to = services / f"s{number}.toml"
        report = imported(binary, "boutiques", path, to)
        reports.append(report)
        if not report["file"]:
            continue
        text = re.sub(r"(?m)^name = .*$", f'name = "s{number}"', to.read_text(), count=1)
        program = json.loads(path.read_text())["command-line"].split()[0]
        # Any name will do: which program it is, is not the question.
        text = re.sub(r"(?m)^command = \[\n.*$", 'command = [\n    "note",', text, count=1)
        to.write_text(text)
        report["program"] = program
    stub = programs / "note"
    stub.write_text(NOTE.format(file=shlex.quote(str(noted))))
    stub.chmod(0o755)
    calls, differ = collections.Counter(), []
    with Server(binary, [services], str(work / "data"), str(programs)) as server:
        for number, (path, report) in enumerate(zip(paths, reports)):
            if not report["file"]:
                continue
            descriptor = json.loads(path.read_text())
            renamed = report["renamed"]
            for everything in (False, True):
                kind = "all inputs" if everything else "required inputs"
                theirs, ours = values_of(
                    descriptor, lambda id: renamed.get(f"inputs/{id}", id), everything)
                # An input that is in the service, but for something of it, is sent.
                gone = {gap["field"].removeprefix("inputs.").removesuffix(".type")
                        for gap in report["gaps"]
                        if re.fullmatch(r"inputs\.[^.]+(\.type)?", gap["field"]) and gap["lost"]}
                for id in gone:
                    theirs.pop(id, None), ours.pop(renamed.get(f"inputs/{id}", id), None)
                noted.unlink(missing_ok=True)
                try:
                    expected = words_of_bosh(path, theirs)[1:]
                except Exception as error:
                    calls[f"{kind}: bosh refuses"] += 1
                    differ.append((os.path.relpath(path, source), kind, f"bosh: {error}"))
                    continue
                _, fault = server.call(f"s{number}", ours)
                got = noted.read_bytes().split(b"\0")[:-1] if noted.exists() else None
                got = None if got is None else [word.decode() for word in got]
                same = got == expected
                calls[f"{kind}: {'the same' if same else 'not run' if got is None else 'another'}"] += 1
                if not same:
                    differ.append((os.path.relpath(path, source), kind, f"{fault or ''} bosh {expected} ours {got}"))
    return reports, calls, differ


# --- CWL ----------------------------------------------------------------------------------------


def tests_of(path):
    """All tests below a list, each with its directory."""
    import yaml

    for entry in yaml.safe_load(path.read_text()):
        if "$import" in entry:
            yield from tests_of(path.parent / entry["$import"])
        else:
            yield path.parent, entry


def content_of(value, base):
    """The bytes of a File, the archive of a Directory."""
    location = value.get("location") or value.get("path")
    if value["class"] == "Directory":
        bytes_ = io.BytesIO()
        with tarfile.open(fileobj=bytes_, mode="w") as archive:
            if location:
                archive.add(base / location, ".")
            for entry in value.get("listing", []):
                data = content_of(entry, base)
                told = tarfile.TarInfo(entry.get("basename") or Path(entry["location"]).name)
                told.size = len(data)
                archive.addfile(told, io.BytesIO(data))
        return bytes_.getvalue()
    if "contents" in value:
        return value["contents"].encode()
    return (base / urllib.request.url2pathname(location)).read_bytes()


def sent(value, base, name, called):
    """A value of a job as the service takes it; `called` gets the names of its files here."""
    if isinstance(value, list):
        return [sent(item, base, f"{name}/{n + 1}", called) for n, item in enumerate(value)]
    if isinstance(value, dict) and value.get("class") in ("File", "Directory"):
        location = value.get("location") or value.get("path") or ""
        called[value.get("basename") or os.path.basename(location)] = os.path.basename(name)
        return {"value": base64.b64encode(content_of(value, base)).decode(), "encoding": "base64"}
    return value


def bytes_of(output):
    value = output.get("value", "")
    if output.get("encoding") == "base64":
        return base64.b64decode(value)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def agrees(expected, output, called):
    """Whether an output is what the test expects."""
    if expected == "Any":
        return True
    if isinstance(expected, dict) and expected.get("class") == "File":
        output = output[0] if isinstance(output, list) and len(output) == 1 else output
        if not isinstance(output, dict):
            return False
        data = bytes_of(output)
        sum_ = expected.get("checksum", "").removeprefix("sha1$")
        return (not sum_ or hashlib.sha1(data).hexdigest() == sum_) and \
            expected.get("size", len(data)) == len(data)
    if isinstance(expected, dict) and expected.get("class") == "Directory":
        with tarfile.open(fileobj=io.BytesIO(bytes_of(output))) as archive:
            there = {os.path.normpath(member.name) for member in archive} - {"."}
        wanted = {entry.get("basename") or entry.get("location", "Any")
                  for entry in expected.get("listing", [])}
        return wanted - {"Any"} <= {name.split("/")[0] for name in there}
    if isinstance(expected, list):
        return isinstance(output, list) and len(output) == len(expected) and \
            all(agrees(a, b, called) for a, b in zip(expected, output))
    return expected == output or called.get(expected, expected) == output


def compared(expected, outputs, renamed, called):
    """What differs from the outputs that a test expects; None if nothing does."""
    itself = outputs.get("cwl.output.json")
    itself = json.loads(bytes_of(itself)) if itself else {}
    for id, value in (expected or {}).items():
        name = renamed.get(f"outputs/{id}", id)
        output = outputs.get(name, itself.get(id))
        if value is None and output is None:
            continue
        if output is None:
            return f"{id} is not there"
        if not agrees(value, output, called):
            return f"{id} is another: {json.dumps(output)[:200]}"
    return None


def cwl(binary, source, work):
    import yaml

    # Default files stand beside the tools.
    tree = work / "cwl"
    shutil.copytree(source, tree, ignore=shutil.ignore_patterns(".git"))
    tests, reports = [], {}
    for base, test in tests_of(tree / "conformance_tests.yaml"):
        tool = base / test["tool"].split("#")[0]
        if "required" not in test.get("tags", []) or not tool.exists():
            continue
        if yaml.safe_load(tool.read_text()).get("class") == "CommandLineTool":
            tests.append((base, test, tool))
    files = []
    for number, tool in enumerate(sorted({tool for _, _, tool in tests})):
        to = tool.with_name(f"t{number}.toml")
        report = imported(binary, "cwl", tool, to)
        reports[tool] = report
        if report["file"]:
            to.write_text(re.sub(r"(?m)^name = .*$", f'name = "t{number}"', to.read_text(), count=1))
            report["service"] = f"t{number}"
            files.append(to)
    counts, failed = collections.Counter(), []
    with Server(binary, files, str(work / "data")) as server:
        for base, test, tool in tests:
            report = reports[tool]
            id = test.get("id") or test.get("label")
            if not report["file"]:
                counts["no service file"] += 1
                reason = [gap["reason"] for gap in report["gaps"] if gap["lost"]]
                failed.append((id, report.get("refused") or "; ".join(reason)))
                continue
            job, called = {}, {}
            if test.get("job"):
                path = base / test["job"]
                job, base = yaml.safe_load(path.read_text()) or {}, path.parent
            taken = {name for name in report_inputs(server, report["service"])}
            inputs = {}
            for key, value in job.items():
                name = report["renamed"].get(f"inputs/{key}", key)
                if name in taken and value is not None:
                    inputs[name] = sent(value, base, name, called)
            outputs, fault = server.call(report["service"], inputs)
            if test.get("should_fail"):
                differs = None if fault else "it should fail"
            elif fault:
                differs = fault
            else:
                differs = compared(test.get("output"), outputs, report["renamed"], called)
            counts["as expected" if differs is None else "otherwise"] += 1
            if differs:
                failed.append((id, differs))
    return list(reports.values()), counts, failed


def report_inputs(server, name):
    with urllib.request.urlopen(f"{server.base}/ogc/processes/{name}", timeout=CALL_TIME) as answer:
        return json.loads(answer.read()).get("inputs", {})


def told(title, counts, reasons):
    print(f"\n{title}: {sum(counts.values())}")
    for kind, count in counts.most_common():
        print(f"  {count:5}  {kind}")
    for reason, count in reasons.most_common():
        print(f"         {count:5}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--niwrap", metavar="DIR")
    parser.add_argument("--cwl", metavar="DIR")
    parser.add_argument("--fishplate", default="target/debug/fishplate")
    parser.add_argument("--json", metavar="FILE", help="everything that differs, for who looks closer")
    arguments = parser.parse_args()
    if not (arguments.niwrap or arguments.cwl):
        parser.error("give --niwrap or --cwl, or both")
    binary, everything = os.path.abspath(arguments.fishplate), {}
    for title, run, source in (
            ("Boutiques descriptors of NiWrap", niwrap, arguments.niwrap),
            ("CommandLineTools of CWL's required tests", cwl, arguments.cwl)):
        if not source:
            continue
        with tempfile.TemporaryDirectory() as work:
            reports, calls, differ = run(binary, source, Path(work))
        counts, reasons = counted(reports)
        told(title, counts, reasons)
        told("calls", calls, collections.Counter())
        everything[title] = {"reports": counts, "reasons": reasons, "calls": calls, "differ": differ}
        if not arguments.json:
            for what in differ[:20]:
                print("    ", *what, file=sys.stderr)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
