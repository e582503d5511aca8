#!/usr/bin/env python3
"""steer.py ENDPOINTS TEMPERATURE...: sets the left end of a rod to one temperature after the other while heat.c runs, and stops it.

ENDPOINTS is the file of `fishplate run --transport soap --endpoints FILE`. With fishplate's Python package; steer_zeep.py does
the same with a SOAP toolkit that knows nothing of us.
"""

import itertools
import json
import struct
import sys
from pathlib import Path

import fishplate

SET, STOP, STATE = 1, 2, 3


def main(endpoints: str, *temperatures: str) -> None:
    told = json.loads(Path(endpoints).read_text())
    # A rank is a web service; whoever has the domain's credential may call it.
    rank_0 = fishplate.Service(told["ranks"][0], auth=told["credential"])
    numbers = itertools.count(1)

    def order(tag: int, value: float) -> None:
        rank_0.store(
            domain=told["domain"], client="steer.py", sequence=next(numbers), fromRank=0, toRank=0, tag=tag,
            data=struct.pack("=d", value),
        )
        answer = rank_0.receive(domain=told["domain"], source=0, tag=STATE, wait=60)
        steps, left, mean = struct.unpack("=3d", answer.data.bytes())
        print(f"{steps:9.0f} steps: {left:g} degrees at the left end, {mean:.2f} in the mean", flush=True)

    for temperature in temperatures:
        order(SET, float(temperature))
    order(STOP, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
