"""A small call through OGC JSON beside SOAP beside bare hyper with the same bytes: `small`, with more sides."""

import json

import small
from place import Place
from server import JSON, envelope

PATH = "/ogc/processes/matrix:add/execution"
INPUTS = {"x": 1, "y": 2}


def request(response: str) -> bytes:
    return json.dumps({"inputs": INPUTS, "response": response}).encode()


SOAP_BYTES, JSON_BYTES = "bare hyper, SOAP's bytes", "bare hyper, JSON's bytes"
SIDES = [
    small.Side(SOAP_BYTES, small.BARE, envelope("matrix", "add", small.NUMBERS), bare=SOAP_BYTES),
    small.Side("SOAP", "fishplate-xml", envelope("matrix", "add", small.NUMBERS), bare=SOAP_BYTES),
    small.Side(JSON_BYTES, small.BARE, request("document"), headers=JSON, bare=JSON_BYTES),
    *(small.Side(f"OGC JSON, {response}", "fishplate-xml", request(response), PATH, JSON, JSON_BYTES)
      for response in ("document", "raw")),
]


def measure(place: Place, rounds: int, seconds: int) -> dict:
    return small.run(place, rounds, seconds, SIDES)
