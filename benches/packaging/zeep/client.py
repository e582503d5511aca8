"""zeep's client: client.py WSDL; does what ../drivers.py asks on stdin."""

import array
import json
import sys
import time

import zeep
from zeep.transports import Transport

BINDING = "{urn:fishplate:bench:matrix}matrix"


class Kept(Transport):
    """Sends as zeep does, and keeps the last answer; or gives that again."""

    answer, again = None, False

    def post(self, address, message, headers):
        if not self.again:
            self.answer = super().post(address, message, headers)
        return self.answer


def numbers(n: int) -> array.array:
    """The same 24 random bits a number as all clients and servers of this benchmark."""
    state, made = n, array.array("f", bytes(4 * n * n))
    for at in range(n * n):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        made[at] = (state >> 40) / 16777216.0
    return made


def main(wsdl: str) -> None:
    transport = Kept()
    # Without limits of lxml, as an answer of a thousand numbers a row is none of an attacker.
    client = zeep.Client(wsdl, transport=transport, settings=zeep.Settings(xml_huge_tree=True))
    size, kept, rows = None, None, None
    for line in sys.stdin:
        url, operation, n, repetitions = line.split()
        n, repetitions = int(n), int(repetitions)
        service = client.create_service(BINDING, url)
        if n != size:
            size, ours = n, numbers(n)
            rows = [{"item": ours[at:at + n].tolist()} for at in range(0, n * n, n)]
        if operation == "parse" and kept != (url, n):
            service.getMatrix(n=n)
            kept = (url, n)
        transport.again = operation == "parse"
        call = ((lambda: service.echo(matrix={"row": rows})) if operation == "echo" else
                (lambda: service.getMatrix(n=n)))
        equal = True
        if repetitions == 0:
            found = array.array("f", (number for row in call() for number in row.item))
            equal = found == ours
        seconds = []
        for _ in range(repetitions):
            begin = time.monotonic()
            answer = call()
            seconds.append(time.monotonic() - begin)
            del answer
        if operation != "parse":
            kept = None
        print(json.dumps({"equal": equal, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
