"""zeep and the workflow manager: python domain_manager.py MANAGER SERVICE SERVICE

Runs a domain of two ranks, one of each service, which copy their input `x` to their output `y`.
"""

import io
import json
import sys
import tarfile
import time

import zeep

MPFL = """<domain xmlns="urn:fishplate:mpfl:1">
  <instances service="{}" ranks="1"><argument>x=zeep</argument></instances>
  <instances service="{}" ranks="1"><argument>x=zeep</argument></instances>
</domain>"""


def main(manager: str, *services: str) -> None:
    service = zeep.Client(manager + "?wsdl").service
    job = service.spawn(file=MPFL.format(*services).encode(), transport="tcp")
    while service.running(job=job):
        time.sleep(0.1)
    outputs = service.results(job=job)
    summary = json.loads(outputs.summary)
    assert [rank["state"] for rank in summary["ranks"]] == ["done", "done"], summary
    archive = tarfile.open(fileobj=io.BytesIO(outputs.results))
    for member in sorted(filter(tarfile.TarInfo.isfile, archive), key=lambda one: one.name):
        name = member.name.removeprefix("./")
        print(f"{name}: {archive.extractfile(member).read().decode()}")


main(*sys.argv[1:])
