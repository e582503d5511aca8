"""The native half: private to the package."""

from collections.abc import Callable, Generator, Iterator, Sequence
from os import PathLike
from types import GenericAlias
from typing import Any, Generic, TypeVar, final

from typing_extensions import Buffer

_T = TypeVar("_T")

__all__ = [
    "Difference",
    "Meter",
    "Offer",
    "find",
    "get",
    "put",
    "services",
    "transferred",
    "Operation",
    "Parameter",
    "Array",
    "Chunks",
    "Payload",
    "Service",
    "Session",
    "Task",
    "Watch",
    "fault_codes",
    "job_states",
    "new_key",
    "JOBS_PAGE",
    "__version__",
]

__version__: str

JOBS_PAGE: int

_Values = list[tuple[str, str | None, Any]]
_Choices = list[tuple[str, str, str | None]]

@final
class Task(Generic[_T]):
    """Something that takes time; it can be waited for once."""

    def wait(self, tick: Callable[[], object] | None = None) -> _T: ...
    def __await__(self) -> Generator[Any, Any, _T]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Parameter:
    """One input or output of an operation."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def element(self) -> str | None: ...
    @property
    def dimensions(self) -> list[str] | None: ...
    @property
    def help(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def media_type(self) -> str: ...
    @property
    def file(self) -> bool: ...
    @property
    def optional(self) -> bool: ...
    @property
    def default(self) -> str | None: ...
    @property
    def repeated(self) -> bool: ...
    @property
    def choices(self) -> list[str]: ...
    @property
    def min(self) -> str | None: ...
    @property
    def max(self) -> str | None: ...

@final
class Operation:
    """What a service does when it is called by this name."""

    @property
    def name(self) -> str: ...
    @property
    def documentation(self) -> str: ...
    @property
    def inputs(self) -> list[Parameter]: ...
    @property
    def outputs(self) -> list[Parameter]: ...

@final
class Difference:
    """One thing in which two interfaces differ."""

    @property
    def operation(self) -> str: ...
    @property
    def parameter(self) -> str | None: ...
    @property
    def what(self) -> str: ...
    @property
    def first(self) -> str: ...
    @property
    def second(self) -> str: ...
    @property
    def breaks(self) -> bool: ...

@final
class Payload:
    """The bytes of a value, wherever they are."""

    @staticmethod
    def from_buffer(data: Buffer) -> Payload: ...
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Task[Payload]: ...
    @staticmethod
    def from_iterator(chunks: Iterator[Buffer]) -> Payload: ...
    @staticmethod
    def pack(path: str | PathLike[str]) -> Task[Payload]: ...
    @staticmethod
    def reference(url: str, size: int | None = None, digest: str | None = None) -> Payload: ...
    @property
    def size(self) -> int | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def file(self) -> Any: ...
    def chunks(self) -> Chunks: ...
    def memory(self) -> bytes | None: ...
    def writable(self) -> bytearray | None: ...
    def save(self, path: str | PathLike[str]) -> Task[None]: ...
    def unpack(self, name: str, path: str | PathLike[str]) -> Task[None]: ...

@final
class Chunks:
    """Bytes that come one chunk after the other."""

    def get(self, number: int) -> Task[bytes | None]: ...

@final
class Array:
    """An array of numbers: its elements' bytes, little-endian, in C order."""

    def __new__(cls, element: str, shape: Sequence[int], data: Payload) -> Array: ...
    @staticmethod
    def from_file(parameter: Parameter, path: str | PathLike[str]) -> Task[Array]: ...
    @property
    def element(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def data(self) -> Payload: ...

@final
class Watch:
    """What is seen of a call that is waited for."""

    def __new__(cls) -> Watch: ...
    def take(self) -> dict[str, Any] | None: ...

@final
class Service:
    """A service, known by its description."""

    @staticmethod
    def connect(
        url: str,
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        ca_file: str | PathLike[str] | None = None,
        address: str | None = None,
        packaging: str | None = None,
        auth: str | tuple[str, str] | None = None,
    ) -> Task[Service]: ...
    @staticmethod
    def open(
        url: str,
        wsdl: str,
        wsdl_url: str,
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        ca_file: str | PathLike[str] | None = None,
        address: str | None = None,
        packaging: str | None = None,
        auth: str | tuple[str, str] | None = None,
    ) -> Service: ...
    def differences(self, other: Service) -> list[Difference]: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def documentation(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def wsdl(self) -> str: ...
    @property
    def wsdl_url(self) -> str: ...
    @property
    def ours(self) -> bool: ...
    @property
    def operations(self) -> list[Operation]: ...
    def call(
        self,
        operation: str,
        given: _Values,
        *,
        key: str | None = None,
        session: str | None = None,
        outputs: _Choices = ...,
        streams: list[str] = ...,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Task[tuple[_Values, str | None]]: ...
    def spawn(
        self,
        operation: str,
        given: _Values,
        *,
        key: str | None = None,
        session: str | None = None,
        outputs: _Choices = ...,
        timeout: float | None = None,
    ) -> Task[tuple[str, bool]]: ...
    def results(
        self,
        operation: str,
        job: str,
        *,
        outputs: _Choices = ...,
        timeout: float | None = None,
    ) -> Task[tuple[_Values, str | None]]: ...
    def status(self, job: str) -> Task[dict[str, Any]]: ...
    def kill(self, job: str) -> Task[tuple[str, str]]: ...
    def log(
        self, job: str, *, stderr: bool = False, offset: int = 0
    ) -> Task[tuple[str, int, bool]]: ...
    def jobs(
        self, *, state: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Task[tuple[list[dict[str, Any]], bool]]: ...
    def remove(self, job: str) -> Task[None]: ...

@final
class Meter:
    """How much was transferred."""

    def __new__(cls) -> Meter: ...
    @property
    def sent(self) -> tuple[int, int]: ...
    @property
    def received(self) -> tuple[int, int]: ...

@final
class Offer:
    """Files that we serve ourselves until this is closed."""

    @staticmethod
    def open(*, at: str | None = None, towards: str | None = None) -> Task[Offer]: ...
    def add(self, path: str | PathLike[str]) -> Task[Payload]: ...
    def close(self) -> Task[None]: ...

@final
class Session:
    """A session that was opened, here or elsewhere."""

    @staticmethod
    def open(
        url: str,
        *,
        id: str | None = None,
        idle: float | None = None,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        ca_file: str | PathLike[str] | None = None,
        address: str | None = None,
        packaging: str | None = None,
        auth: str | tuple[str, str] | None = None,
    ) -> Task[Session]: ...
    @property
    def id(self) -> str: ...
    @property
    def expires(self) -> float | None: ...
    def touch(self) -> Task[float]: ...
    def files(self) -> Task[list[tuple[str, Payload]]]: ...
    def remove(self, name: str) -> Task[None]: ...
    def close(self) -> Task[None]: ...

def get(
    reference: Payload,
    path: str | PathLike[str],
    *,
    meter: Meter | None = None,
    via: Service | None = None,
) -> Task[tuple[int, str]]: ...
def put(
    path: str | PathLike[str],
    url: str,
    *,
    meter: Meter | None = None,
    auth: str | tuple[str, str] | None = None,
) -> Task[Payload]: ...
def find(
    wanted: str,
    servers: Sequence[str],
    *,
    timeout: float | None = None,
    connect_timeout: float | None = None,
    ca_file: str | PathLike[str] | None = None,
    address: str | None = None,
    packaging: str | None = None,
    auth: str | tuple[str, str] | None = None,
) -> Task[tuple[list[tuple[Service, list[Difference]]], list[str]]]: ...
def services(
    url: str,
    *,
    timeout: float | None = None,
    connect_timeout: float | None = None,
    ca_file: str | PathLike[str] | None = None,
    auth: str | tuple[str, str] | None = None,
) -> Task[list[str]]: ...
def transferred() -> tuple[int, int]: ...
def fault_codes() -> list[tuple[str, bool, str]]: ...
def job_states() -> list[tuple[str, bool]]: ...
def new_key() -> str: ...
