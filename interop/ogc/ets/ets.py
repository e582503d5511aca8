"""The standard's executable test suite (org.opengis.cite:ets-ogcapi-processes10) against a server of its own:
python ets.py BINARY CLASSPATH

Tells each test, CLASS.TEST, as a line: `ok`, `not ok` with the reason, `skip` with why the suite skipped it, or `known` with why
it can't pass.
"""

import contextlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPORTS = [f"--add-exports=java.base/sun.net.www.protocol.{protocol}=ALL-UNNAMED" for protocol in ("http", "https")]


KNOWN = {
    "Jobs.testJobCreationInputRef": "our server is asked to fetch a picture from GitHub, which needs the internet",
    "Jobs.testJobCreationInputValidation": "its schema of an answer is `oneOf` of several that every object of JSON is valid against",
}


def main(binary: str, class_path: str, *_: str) -> int:
    with tempfile.TemporaryDirectory(prefix="fishplate-ets-") as scratch, server(binary, Path(scratch)) as api:
        properties = Path(scratch, "properties.xml")
        properties.write_text(arguments(iut=api, echoprocessid="echo", testallprocesses="true", uselocalschema="true"))
        output = Path(scratch, "output")
        command = ["java", "-XX:TieredStopAtLevel=1", *EXPORTS, "-cp", class_path, "Client",
                   str(HERE.parent / "schemas"), str(output), str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        results = sorted(output.rglob("testng-results.xml"))
        if not results:
            sys.exit(f"the suite gave no results:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return report(ElementTree.parse(results[-1]).getroot())


def arguments(**named: str) -> str:
    entries = "".join(f'<entry key="{name}">{value}</entry>' for name, value in named.items())
    return f'<properties version="1.0">{entries}</properties>'


def report(results: ElementTree.Element) -> int:
    failed = 0
    for group in results.iter("class"):
        for test in group.iter("test-method"):
            if test.get("is-config") == "true":
                continue
            name = f"{group.get('name').rsplit('.', 1)[1]}.{test.get('name')}"
            why = " ".join((test.findtext("exception/message") or "").split())[:500]
            if test.get("status") == "PASS":
                print(f"ok {name}")
            elif test.get("status") == "SKIP":
                print(f"skip {name}: {why}")
            elif name in KNOWN:
                print(f"known {name}: {KNOWN[name]} ({why})")
            else:
                failed += 1
                print(f"not ok {name}: {why}")
    return 1 if failed else 0


@contextlib.contextmanager
def server(binary: str, scratch: Path):
    """A server of the process `echo`; gives the address of its API."""
    with open(scratch / "log", "w") as log:
        process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), str(HERE / "echo.toml")],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True)
        try:
            _, url = process.stdout.readline().split()
            yield f"{url.rsplit('/', 1)[0]}/ogc"
        finally:
            process.terminate()
            process.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
