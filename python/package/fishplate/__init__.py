"""Programs as web services, from Python: call them, and hold their data by reference.

    import fishplate

    svc = fishplate.Service("http://somewhere.example/mesher")
    mesh = svc(geometry=Path("pipe.geo"), size=0.5).mesh
    mesh.save("pipe.msh")

- `Service`: what it offers are functions; `AsyncService` for `await`
- `Job`: a long run; `Status` tells how it stands
- `Result`: the outputs of a call; `Data`, `Reference`: files among them, here or elsewhere; `Stream`: one that
  is still being made
- `put`, `get` (`aput`, `aget`), `Offer`: files on their way, without a service
- `find`, `diff`: services by what they take and give, and how two differ
- `Server`: many services, one pool of data; `Session`: a space on it that programs share
- `Run`: a workflow that can be killed and goes on where it was
- `errors`: `Fault` and the others
"""

from . import errors
from ._data import AsyncData, AsyncReference, AsyncStream, Data, Reference, Stream
from ._find import diff, find
from ._job import AsyncJob, Job, Status, Transfer
from ._move import AsyncOffer, Offer, aget, aput, get, put, transferred
from ._native import Difference, Parameter, __version__
from ._report import Edge
from ._result import Result
from ._run import Run
from ._run_service import AsyncRunService, RunService
from ._server import AsyncServer, AsyncSession, Server, Session
from ._service import AsyncOperation, AsyncService, Operation, Service
from ._step import Step
from .errors import (
    ArgumentError,
    ConnectionLost,
    Error,
    Fault,
    Limit,
    NotFound,
    NotUnderstood,
    Timeout,
    Unreachable,
)

__all__ = [
    "ArgumentError",
    "AsyncData",
    "AsyncJob",
    "AsyncOffer",
    "AsyncOperation",
    "AsyncReference",
    "AsyncRunService",
    "AsyncServer",
    "AsyncService",
    "AsyncSession",
    "AsyncStream",
    "ConnectionLost",
    "Data",
    "Difference",
    "Edge",
    "Error",
    "Fault",
    "Job",
    "Limit",
    "NotFound",
    "NotUnderstood",
    "Offer",
    "Operation",
    "Parameter",
    "Reference",
    "Result",
    "Run",
    "RunService",
    "Server",
    "Service",
    "Session",
    "Status",
    "Step",
    "Stream",
    "Timeout",
    "Transfer",
    "Unreachable",
    "__version__",
    "aget",
    "aput",
    "diff",
    "errors",
    "find",
    "get",
    "put",
    "transferred",
]
