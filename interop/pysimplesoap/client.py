"""PySimpleSOAP against us: python client.py ARITHMETIC_WSDL PAYLOADS"""

import sys
import time
import traceback

from pysimplesoap.client import SoapClient, SoapFault


def main(wsdl: str, *_: str) -> int:
    client = SoapClient(wsdl=wsdl, timeout=60)
    ask = client.wsdl_call  # it has a method `call` of its own
    failed = 0

    def check(name, body):
        nonlocal failed
        try:
            body()
            print(f"ok {name}")
        except Exception as problem:  # noqa: BLE001: every failure is a line of the report
            failed += 1
            print(f"not ok {name}: {problem!r}")
            traceback.print_exc()

    def spawn():
        job = ask("spawn", x=20, y=22)["job"]
        while ask("running", job=job)["running"]:
            time.sleep(0.05)
        same(ask("results", job=job), {"result": 42})

    def missing_job():
        try:
            ask("results", job="0" * 32)
        except SoapFault as problem:
            same("NoSuchJob" in str(problem.detail), True)
            return
        raise AssertionError("no fault")

    check("call", lambda: same(ask("call", x=1, y=2), {"result": 3}))
    check("spawn", spawn)
    check("missing-job", missing_job)
    return 1 if failed else 0


def same(found, expected) -> None:
    if found != expected:
        raise AssertionError(f"{found!r}, not {expected!r}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
