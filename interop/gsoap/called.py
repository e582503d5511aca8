"""Our client against a service of gSOAP's: python called.py FISHPLATE SERVER ECHO_WSDL PAYLOADS"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (0, 1, 8191, 8192, 8193, 1 << 20, 100_000_000)
PACKAGINGS = ("base64", "mtom", "dime")


def main(fishplate: str, server: str, wsdl: str, payloads: str) -> int:
    failed = 0

    def check(name, body):
        nonlocal failed
        try:
            body()
            print(f"ok {name}", flush=True)
        except Exception as problem:  # noqa: BLE001: every failure is a line of the report
            failed += 1
            print(f"not ok {name}: {problem}", flush=True)

    with tempfile.TemporaryDirectory(prefix="fishplate-interop-") as scratch:
        found = Path(scratch, "found")

        def call(address: str, packaging: str, sent: Path) -> None:
            found.unlink(missing_ok=True)
            done = subprocess.run(
                [fishplate, "call", "--packaging", packaging, "--address", address, f"{address}?wsdl",
                 f"data:{sent}", f"out:copy={found}"],
                capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                raise AssertionError(done.stderr.strip().replace("\n", "; "))

        def same(address: str, packaging: str, sent: Path) -> None:
            call(address, packaging, sent)
            if found.read_bytes() != sent.read_bytes():
                raise AssertionError("other bytes")

        def refused(address: str) -> None:
            try:
                call(address, "base64", Path(payloads, "1.bin"))
            except AssertionError as problem:
                if "not an attachment" not in str(problem):
                    raise
            else:
                raise AssertionError("the server takes any packaging, so its checks mean nothing")

        for packaging in PACKAGINGS:
            with service(server, packaging, wsdl) as address:
                for size in SIZES:
                    sent = Path(payloads, f"{size}.bin")
                    check(f"{packaging} call-file {size}", lambda: same(address, packaging, sent))
        with service(server, "dime", wsdl) as address:
            check("other-packaging", lambda: refused(address))
    return 1 if failed else 0


@contextlib.contextmanager
def service(server: str, packaging: str, wsdl: str):
    """A service of gSOAP's that speaks this packaging; gives its address."""
    process = subprocess.Popen([server, packaging, wsdl], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
