"""Two ways to run a step: `Direct`, as a person would at a prompt, and `Services`, through
Fishplate. Both give the seconds it took and the files that came of it."""

import os
import re
import shutil
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from . import process
from .chain import Step
from .process import Failed


@dataclass(frozen=True)
class Done:
    """One run of one step."""

    seconds: float
    files: dict[str, Path]


class Runner(Protocol):
    """A way to run a step."""

    def run(self, step: Step, folder: Path) -> Done:
        """Runs the step; `folder` is new and empty, and its outputs are left in it."""


SLOT = re.compile(r"\[(in|out|in out) (val|file) ([\w.-]+):(\w+)\]")


class Direct:
    """Runs the command line of the service file by hand, in a scratch directory.

    The service file is read so that both ways run the very same command; no part of Fishplate is
    involved. Only the program is timed: its input files are in place before, as they would be.
    """

    def __init__(self, service_files: list[Path], environment: dict[str, str]):
        self.environment = environment
        self.services = {}
        for path in service_files:
            description = tomllib.loads(path.read_text(encoding="utf-8"))
            self.services[description["name"]] = (path.parent, description)

    def run(self, step: Step, folder: Path) -> Done:
        home, service = self.services[step.service]
        inputs, outputs = service.get("input", {}), service.get("output", {})
        folder.mkdir(parents=True)
        for staged in service.get("stage", []):
            shutil.copy(home / staged["from"], folder / staged["to"])
        for name, path in step.files.items():
            shutil.copy(path, folder / inputs[name].get("filename", name))

        def fill(slot: re.Match) -> str:
            direction, passing, name, _ = slot.groups()
            if passing == "file":
                return (
                    (inputs if direction == "in" else outputs).get(name, {}).get("filename", name)
                )
            return step.values.get(name) or inputs[name]["default"]

        words = [SLOT.sub(fill, word) for word in service["command"]]
        if "/" in words[0]:
            words[0] = str((home / words[0]).absolute())
        environment = self.environment | service.get("environment", {})
        logs = folder / "stdout", folder / "stderr"
        found = shutil.which(words[0], path=environment.get("PATH"))
        if found is None:
            raise Failed(f"{words[0]}: no such program; run examples/pipe/install.sh")
        start = time.perf_counter()
        code = process.run([found, *words[1:]], folder, *logs, environment)
        seconds = time.perf_counter() - start
        self.judge(service, words, code, logs)
        files = {}
        for name in step.outputs:
            rule = outputs[name]
            files[name] = folder / (rule.get("path") or rule.get("filename", name))
            if not files[name].is_file():
                raise Failed(f"{' '.join(words)}: wrote no {files[name].name}")
        return Done(seconds, files)

    @staticmethod
    def judge(service: dict, words: list[str], code: int, logs: tuple[Path, Path]) -> None:
        """Exit codes lie: the log has a say."""
        patterns = [re.compile(pattern) for pattern in service.get("failure", {}).get("log", [])]
        for log in logs:
            with log.open(errors="replace") as lines:
                for line in lines:
                    if any(pattern.search(line) for pattern in patterns):
                        raise Failed(f"{' '.join(words)}: {line.strip()}")
        if code not in service.get("exit", {}).get("success", [0]):
            said = process.tail(logs[1]) or process.tail(logs[0])
            raise Failed(f"{' '.join(words)}: ended with {code}\n{said}")


class Services:
    """Runs a step with `fishplate call`, as a user would; all of the call is timed: starting the
    client, reading the WSDL, sending the inputs, waiting, and writing the outputs to files."""

    def __init__(self, fishplate: Path, urls: dict[str, str]):
        self.fishplate = fishplate
        self.urls = urls

    def words(self, step: Step) -> list[str]:
        """The command, as one would type it."""
        values = [f"{name}={value}" for name, value in step.values.items()]
        files = [f"{name}:{path}" for name, path in step.files.items()]
        outputs = [f"out:{name}={file}" for name, file in step.outputs.items()]
        return [str(self.fishplate), "call", self.urls[step.service], *values, *files, *outputs]

    def run(self, step: Step, folder: Path) -> Done:
        folder.mkdir(parents=True)
        words = self.words(step)
        logs = folder / "call.stdout", folder / "call.stderr"
        start = time.perf_counter()
        code = process.run(words, folder, *logs, dict(os.environ))
        seconds = time.perf_counter() - start
        if code != 0:
            raise Failed(f"{' '.join(words)}: ended with {code}\n{process.tail(logs[1])}")
        files = {name: folder / file for name, file in step.outputs.items()}
        for path in files.values():
            if not path.is_file():
                raise Failed(f"{' '.join(words)}: wrote no {path.name}")
        return Done(seconds, files)
