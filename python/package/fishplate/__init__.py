"""Programs as web services, from Python: call them, and hold their data by reference.

    import fishplate

    svc = fishplate.Service("http://somewhere.example/mesher")
    mesh = svc(geometry=Path("pipe.geo"), size=0.5).mesh
    mesh.save("pipe.msh")

- `Service`: what it offers are functions; `AsyncService` for `await`
- `Job`: a long run; `Status` tells how it stands
- `Result`: the outputs of a call; `Data`, `Reference`: files among them, here or elsewhere
- `errors`: `Fault` and the others
"""

from . import errors
from ._data import AsyncData, AsyncReference, Data, Reference
from ._job import AsyncJob, Job, Status, Transfer
from ._native import Parameter, __version__
from ._result import Result
from ._service import AsyncOperation, AsyncService, Operation, Service
from .errors import (
    ArgumentError,
    ConnectionLost,
    Error,
    Fault,
    Limit,
    NotUnderstood,
    Timeout,
    Unreachable,
)

__all__ = [
    "ArgumentError",
    "AsyncData",
    "AsyncJob",
    "AsyncOperation",
    "AsyncReference",
    "AsyncService",
    "ConnectionLost",
    "Data",
    "Error",
    "Fault",
    "Job",
    "Limit",
    "NotUnderstood",
    "Operation",
    "Parameter",
    "Reference",
    "Result",
    "Service",
    "Status",
    "Timeout",
    "Transfer",
    "Unreachable",
    "__version__",
    "errors",
]
