"""zeep against us: python client.py ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL MATRIX_BINARY_WSDL ECHO_XDESCR_WSDL
SESSION_WSDL STREAM_WSDL PAYLOADS"""

import array
import os
import sys
import time
import traceback
import uuid
from pathlib import Path

import zeep
from lxml import etree

from logins import Logins
from references import References

OPTIONS = "urn:fishplate:options:1"
HUGE = zeep.Settings(xml_huge_tree=True)  # else libxml2 refuses texts above 10 MB
SIZES = (0, 1, 8191, 8192, 8193, 1 << 20)
LARGE = 100_000_000  # goes through `call` only
STREAM = 5_000_001  # bytes of a file whose length nobody tells


# Subnormal, largest, not a binary fraction, negative zero.
ROWS = [[0.1, -0.0, 1e-45], [3.4028235e38, 16777216.0, -1.1754944e-38]]


def main(*arguments: str) -> int:
    *wsdls, payloads = arguments
    arithmetic, echo, matrix, binary, xdescr, sessions, stream = [
        zeep.Client(wsdl, settings=HUGE) for wsdl in wsdls]
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

    def soap12():
        (port,) = [port for port in arithmetic.wsdl.services[next(iter(arithmetic.wsdl.services))].ports.values()
                   if isinstance(port.binding, zeep.wsdl.bindings.soap.Soap12Binding)]
        same(arithmetic.bind(port_name=port.name).call(x=1, y=2), 3)

    def key():
        header = etree.Element(f"{{{OPTIONS}}}key")
        header.text = f"interop-{uuid.uuid4()}"
        first = arithmetic.service.spawn(x=1, y=2, _soapheaders=[header])
        same(arithmetic.service.spawn(x=1, y=2, _soapheaders=[header]), first)
        wait(arithmetic, first)
        same(arithmetic.service.results(job=first), 3)

    def rows(found):
        return [row.item for row in found]  # the outermost list is unwrapped already

    def array_echo():
        found = rows(matrix.service.echo(matrix={"item": [{"item": row} for row in ROWS]}))
        same([list(map(repr, row)) for row in found], [list(map(repr, row)) for row in ROWS])

    def array_get():
        found = rows(matrix.service.getMatrix(n=50))
        same([len(row) for row in found], [50] * 50)
        same(floats(number for row in found for number in row).tobytes(), Path(payloads, "matrix.bin").read_bytes())

    def array_binary():
        data = floats(number for row in ROWS for number in row).tobytes()
        found = binary.service.echo(matrix={"_value_1": data, "type": "float", "shape": [2, 3]})
        same((found._value_1, found.type, list(found.shape)), (data, "float", [2, 3]))

    def cut():
        (binding,) = {port.binding.name for service in stream.wsdl.services.values()
                      for port in service.ports.values()
                      if not isinstance(port.binding, zeep.wsdl.bindings.soap.Soap12Binding)}
        broken = stream.create_service(binding, f"{os.environ['INTEROP_CUTTER']}/stream")
        try:
            broken.call(n=STREAM)
        except (zeep.exceptions.Error, OSError):  # requests' errors are OSErrors
            return
        raise AssertionError("what broke off passed for whole")

    check("stream", lambda: same(stream.service.call(n=STREAM), numbers(STREAM)))
    check("stream-cut", cut)
    check("array", array_echo)
    check("array-get", array_get)
    check("array-binary", array_binary)
    check("call", lambda: same(arithmetic.service.call(x=1, y=2), 3))
    for size in (*SIZES, LARGE):
        data = Path(payloads, f"{size}.bin").read_bytes()
        check(f"call-file {size}", lambda: same(echo.service.call(data=data) or b"", data))
        if size in SIZES:
            check(f"spawn-file {size}", lambda: same(spawned(echo, data), data))
    check("missing-job", lambda: same(
        fault(lambda: echo.service.results(job="0" * 32)), {"code": "NoSuchJob", "job": "0" * 32}))
    check("soap12", soap12)
    check("bad-value", lambda: same(
        fault(lambda: arithmetic.service.call(x="abc", y=2)), {"code": "InvalidValue", "parameter": "x"}))
    check("key", key)
    references = References(xdescr, sessions, os.environ["INTEROP_ORIGIN"], payloads)
    for name, body in {**references.checks(), **Logins().checks()}.items():
        check(name, body)
    return 1 if failed else 0


def numbers(size: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in range(size // 8 + 1))[:size]


def floats(numbers) -> array.array:
    return array.array("f", numbers)


def spawned(client: zeep.Client, data: bytes) -> bytes:
    job = client.service.spawn(data=data)
    wait(client, job)
    return client.service.results(job=job) or b""  # zeep reads an empty element as None


def wait(client: zeep.Client, job: str) -> None:
    while client.service.running(job=job):
        time.sleep(0.02)


def fault(call) -> dict[str, str]:
    """The fields of a fault's detail but its sentence, which must be there, too, as the reason."""
    try:
        call()
    except zeep.exceptions.Fault as problem:
        if not problem.message:
            raise AssertionError("the fault has no sentence") from problem
        fields = {etree.QName(field).localname: field.text for field in problem.detail[0]}
        fields.pop("message", None)
        return fields
    raise AssertionError("no fault")


def same(found, wanted) -> None:
    if found != wanted:
        raise AssertionError(f"found {str(found)[:80]}, wanted {str(wanted)[:80]}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
