"""zeep and a domain that runs: python domain.py ENDPOINTS, the file of `fishplate run --transport soap --endpoints FILE`.

Rank 1 receives what is stored with tag 7, and gives back its reverse with tag 8.
"""

import json
import sys
from pathlib import Path

import zeep


def main(endpoints: str) -> None:
    told = json.loads(Path(endpoints).read_text())
    client = zeep.Client(told["ranks"][1] + "?wsdl")
    headers = client.transport.session.headers
    data = bytes(range(256)) * 1000

    def store(sequence: int = 1, **other) -> None:
        message = {"domain": told["domain"], "fromRank": 0, "toRank": 1, "tag": 7, "client": "zeep",
                   "sequence": sequence, "data": data}
        client.service.store(**{**message, **other})

    refused("credential is missing", store)
    refused("credential is missing", lambda: client.service.receive(domain=told["domain"], tag=8))
    headers["Authorization"] = "Bearer " + "0" * 64
    refused("not that of this domain", store)
    headers["Authorization"] = "Bearer " + told["credential"]
    refused("of another domain", lambda: store(domain="0" * 32))
    store()
    refused("came before", store)
    message = client.service.receive(domain=told["domain"], tag=8, wait=30)
    assert message.received and message.fromRank == 1 and message.tag == 8, message
    assert message.data == data[::-1]
    print("received")


def refused(why: str, call) -> None:
    try:
        call()
    except zeep.exceptions.Fault as fault:
        assert why in fault.message, fault.message
    else:
        raise AssertionError(f"it was not refused, though {why}")


main(*sys.argv[1:])
