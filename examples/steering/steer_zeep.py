#!/usr/bin/env python3
"""steer_zeep.py ENDPOINTS TEMPERATURE...: what steer.py does, with zeep: it knows the WSDL of a rank, and nothing of fishplate."""

import itertools
import json
import struct
import sys
from pathlib import Path

import requests
import zeep

SET, STOP, STATE = 1, 2, 3


def main(endpoints: str, *temperatures: str) -> None:
    told = json.loads(Path(endpoints).read_text())
    session = requests.Session()
    session.headers["Authorization"] = "Bearer " + told["credential"]
    rank_0 = zeep.Client(told["ranks"][0] + "?wsdl", transport=zeep.Transport(session=session)).service
    numbers = itertools.count(1)

    def order(tag: int, value: float) -> None:
        rank_0.store(domain=told["domain"], client="zeep", sequence=next(numbers), fromRank=0, toRank=0, tag=tag,
                     data=struct.pack("=d", value))
        answer = rank_0.receive(domain=told["domain"], source=0, tag=STATE, wait=60)
        steps, left, mean = struct.unpack("=3d", answer.data)
        print(f"{steps:9.0f} steps: {left:g} degrees at the left end, {mean:.2f} in the mean", flush=True)

    for temperature in temperatures:
        order(SET, float(temperature))
    order(STOP, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
