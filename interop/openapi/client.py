"""OGC API - Processes with a client that openapi-generator made for Python of `/ogc/openapi.json`: python client.py WSDL... PAYLOADS

The client is the package `processes`, on the path. Nothing here knows an address but the client, or a field that is not typed.
"""

import base64
import sys
import time
import traceback
from pathlib import Path

from processes import (ApiClient, ApiException, ArithmeticTestInputs, ArithmeticTestRequest, Configuration, EchoFileInputs, EchoFileRequest,
                       FileContent, FileValue, GalleryInputs, GalleryRequest, JobsApi, MatrixEchoInputMatrix, MatrixEchoInputs,
                       MatrixEchoRequest, ProcessesApi, SayInputs, SayRequest, StatusInfo)

ROWS = [[0.5, -1.0], [3.5, 16777216.0]]


def main(*arguments: str) -> int:
    first, *_, payloads = arguments
    api = first.split("?")[0].rsplit("/", 1)[0] + "/ogc"
    failed = 0
    with ApiClient(Configuration(host=api)) as client:
        for name, check in Checks(client, Path(payloads)).all().items():
            try:
                check()
                print(f"ok {name}", flush=True)
            except Exception as problem:  # noqa: BLE001: every failure is a line of the report
                failed += 1
                print(f"not ok {name}: {str(problem)[:2000]!r}", flush=True)
                traceback.print_exc()
    return 1 if failed else 0


class Checks:
    def __init__(self, client: ApiClient, payloads: Path) -> None:
        self.processes, self.jobs = ProcessesApi(client), JobsApi(client)
        self.content = (payloads / "8193.bin").read_bytes()

    def all(self) -> dict:
        return {name: getattr(self, name.replace("-", "_")) for name in (
            "list", "description", "execute", "document", "types", "file", "array", "job", "output", "log", "jobs-list", "dismiss",
            "failed", "mistake", "missing")}

    def list(self) -> None:
        listed = {process.id for process in self.processes.get_processes(limit=100).processes}
        same({"arithmetic-test", "echo-file", "matrix:echo"} - listed, set())

    def description(self) -> None:
        described = self.processes.get_process_description("arithmetic-test")
        same([*described.inputs], ["x", "y"])
        same("async-execute" in described.job_control_options, True)

    def execute(self) -> None:
        same(self.processes.execute_arithmetic_test(sum_of(1, 2)).actual_instance, 3)

    def document(self) -> None:
        same(self.processes.execute_arithmetic_test(sum_of(1, 2, response="document")).actual_instance.result, 3)

    def types(self) -> None:
        request = SayRequest(inputs=SayInputs(text='a "text" \u00e4', number=2.5, loud=True))
        same(self.processes.execute_say(request).actual_instance, 'a "text" \u00e4|2.5|true\n'.rstrip("\n"))

    def file(self) -> None:
        same(self.bytes_of(self.processes.execute_echo_file(EchoFileRequest(inputs=EchoFileInputs(data=self.data())))), self.content)

    def array(self) -> None:
        request = MatrixEchoRequest(inputs=MatrixEchoInputs(matrix=MatrixEchoInputMatrix(ROWS)))
        rows = self.processes.execute_matrix_echo(request).actual_instance
        same([[number.actual_instance for number in row] for row in rows], ROWS)

    def job(self) -> None:
        request = EchoFileRequest(inputs=EchoFileInputs(data=self.data()))
        job = self.ended(self.processes.execute_echo_file(request, prefer="respond-async"))
        same(job.status, "successful")
        told = self.jobs.get_result(job.job_id)
        same(base64.b64decode(told["copy"]["value"]), self.content)

    def output(self) -> None:
        request = EchoFileRequest(inputs=EchoFileInputs(data=self.data()))
        job = self.ended(self.processes.execute_echo_file(request, prefer="respond-async"))
        same(bytes(self.jobs.get_result_output(job.job_id, "copy")), self.content)

    def log(self) -> None:
        job = self.ended(self.processes.execute_gallery(gallery(0), prefer="respond-async"))
        same("step" in self.jobs.get_log(job.job_id).text, True)

    def jobs_list(self) -> None:
        job = self.ended(self.processes.execute_arithmetic_test(sum_of(1, 2), prefer="respond-async"))
        listed = self.jobs.get_jobs(limit=1, process_id=["arithmetic-test"], status=["successful", "failed"]).jobs
        same([(each.job_id, each.created) for each in listed], [(job.job_id, job.created)])

    def dismiss(self) -> None:
        job = self.processes.execute_gallery(gallery(10), prefer="respond-async")
        same(self.jobs.dismiss(job.job_id).status, "dismissed")
        same(self.ended(job).status, "dismissed")

    def failed(self) -> None:
        job = self.ended(self.processes.execute_arithmetic_test(sum_of(2**31 - 1, 1), prefer="respond-async"))
        same(job.status, "failed")
        problem = problem_of(lambda: self.jobs.get_result(job.job_id), 422)
        same(problem.job, job.job_id)

    def mistake(self) -> None:
        problem = problem_of(lambda: self.processes.execute("gallery", execute={"inputs": {"n": 1}}), 400)
        same((problem.code, problem.parameter), ("InvalidValue", "n"))

    def missing(self) -> None:
        same(problem_of(lambda: self.jobs.get_status("0"), 404).code, "NoSuchJob")

    def data(self) -> FileValue:
        return FileValue(FileContent(value=base64.b64encode(self.content).decode(), encoding="base64"))

    def bytes_of(self, results) -> bytes:
        return base64.b64decode(results.copy.actual_instance.value)

    def ended(self, job: StatusInfo) -> StatusInfo:
        while job.status in ("accepted", "running"):
            time.sleep(0.02)
            job = self.jobs.get_status(job.job_id)
        return job


def sum_of(x: int, y: int, **more: str) -> ArithmeticTestRequest:
    return ArithmeticTestRequest(inputs=ArithmeticTestInputs(x=x, y=y), **more)


def gallery(pause: float) -> GalleryRequest:
    return GalleryRequest(inputs=GalleryInputs(n=8, pause=pause))


def problem_of(call, status: int):
    try:
        call()
    except ApiException as problem:
        same(problem.status, status)
        return problem.data
    raise AssertionError("it was answered")


def same(got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"{got!r}, not {expected!r}"[:1000])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
