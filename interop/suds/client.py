"""suds against us: python client.py ARITHMETIC_WSDL PAYLOADS"""

import sys
import time
import traceback

import suds
import suds.client


def main(wsdl: str, *_: str) -> int:
    client = suds.client.Client(wsdl, cache=None, timeout=60)
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
        job = client.service.spawn(x=20, y=22)
        while client.service.running(job=job):
            time.sleep(0.05)
        same(client.service.results(job=job), 42)

    def missing_job():
        try:
            client.service.results(job="0" * 32)
        except suds.WebFault as problem:
            same(str(problem.fault.detail.faultDetail.code), "NoSuchJob")
            return
        raise AssertionError("no fault")

    check("call", lambda: same(client.service.call(x=1, y=2), 3))
    check("spawn", spawn)
    check("missing-job", missing_job)
    return 1 if failed else 0


def same(found, expected) -> None:
    if found != expected:
        raise AssertionError(f"{found!r}, not {expected!r}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
