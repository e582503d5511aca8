"""What can go wrong.

`Error` is the base of all. A `Fault` is a service's answer that is no result, with its parts; each code
has a class of its own, below `SenderFault` (the same call will not do better) or `ReceiverFault`. What
happens between us and a service is no fault: `Unreachable`, `ConnectionLost`, `Timeout`,
`NotUnderstood`. A file of yours that cannot be read or written is an `OSError`.

    try:
        result = svc(deck=Path("job.inp"))
    except fishplate.errors.ProgramFailed as fault:
        print(fault.exit_code, fault.stderr)
    except fishplate.Fault as fault:
        print(fault.code, fault.parameter, fault.limit)
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Limit(NamedTuple):
    """A limit that stopped something; docs/reference/limits.md has all of them."""

    name: str
    value: str
    """With its unit."""


class Error(Exception):
    """The base of what this package raises."""


class ArgumentError(Error, TypeError):
    """The service has no such operation or parameter, or a required one is missing."""


class BadUrl(Error, ValueError):
    """The URL cannot be used."""


class NotUnderstood(Error):
    """What stands at the URL is no service, or its answer is not what its description says."""

    status: int | None = None
    """The status of HTTP, if the answer was no SOAP for that."""


class NotFound(Error, LookupError):
    """No server has a service of that name, namespace or interface."""


class Unreachable(Error, ConnectionError):
    """No connection came about; nothing was sent."""


class ConnectionLost(Error, ConnectionError):
    """The connection broke after something was sent, and trying again did not help."""


class Timeout(Error, TimeoutError):
    """No answer within the time allowed."""


class RunInUse(Error):
    """Another process has this run's directory, or another run has it."""


class RunCancelled(Error):
    """The run was cancelled, and begins no more calls."""


class RunClosed(Error):
    """The run was closed: what is called through it would not be journalled."""


class JournalMismatch(Error):
    """The workflow called something else than the journal has at this place, or ended without it: it was changed under the
    run, or does not do the same each time."""


class JournalDamaged(Error):
    """The journal of a run cannot be relied upon."""


class BranchError(Error, RuntimeError):
    """A call was made in a thread or task whose place in the run nobody told."""


class Fault(Error):
    """A service's answer that is no result."""

    code: str
    """What kind of fault, for programs: the name of the class."""
    message: str
    """A sentence: what was wrong and what would be right."""
    parameter: str | None
    """The parameter it is about."""
    limit: Limit | None
    """The limit it ran into, or the rule that forbids."""
    job: str | None
    """ID of the job it is about."""
    exit_code: int | None
    """The program's exit code."""
    signal: str | None
    """The signal that ended the program, such as `SIGSEGV`."""
    stderr: str | None
    """What the program's standard error said last."""
    retry_after: float | None
    """When it is worth trying again, in seconds."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        parameter: str | None = None,
        limit: tuple[str, str] | None = None,
        job: str | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
        stderr: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.parameter = parameter
        self.limit = Limit(*limit) if limit else None
        self.job = job
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr
        self.retry_after = retry_after

    def __str__(self) -> str:
        if not self.stderr or self.stderr.strip() in self.message:
            return self.message
        return f"{self.message}\n{self.stderr.rstrip()}"


class SenderFault(Fault):
    """The caller has to change something: the same call will not do better."""


class ReceiverFault(Fault):
    """The other side has to change something: the call may be right."""


class Unauthenticated(SenderFault):
    """It was not said who calls, or what was said is not so; the answer's WWW-Authenticate tells how to say it."""


class Forbidden(SenderFault):
    """Who calls may not do that."""


class MalformedMessage(SenderFault):
    """The message is not what its media type says: not XML, truncated, a broken part."""


class ForbiddenContent(SenderFault):
    """The message holds what SOAP forbids or what could do harm: a DOCTYPE, an entity, a
    processing instruction."""


class VersionMismatch(SenderFault):
    """The envelope is of no SOAP version we speak."""


class UnsupportedMediaType(SenderFault):
    """A media type or packaging that this server does not take."""


class MessageTooLarge(SenderFault):
    """A limit on messages was exceeded; the detail names it."""


class TimedOut(SenderFault):
    """The sender was too slow; the detail names the limit."""


class MustUnderstand(SenderFault):
    """A header marked mustUnderstand is not understood."""


class DataEncodingUnknown(SenderFault):
    """A part of the message is encoded (encodingStyle) in a way that is not understood."""


class InvalidAddressing(SenderFault):
    """A WS-Addressing header is not acceptable."""


class UnknownOperation(SenderFault):
    """The service has no such operation."""


class ActionMismatch(SenderFault):
    """SOAPAction or wsa:Action names another operation than the body."""


class UnknownService(SenderFault, LookupError):
    """No such service here."""


class MissingParameter(SenderFault, TypeError):
    """A required parameter is missing."""


class UnexpectedParameter(SenderFault, TypeError):
    """The operation has no parameter of that name, or it stands twice."""


class InvalidValue(SenderFault, ValueError):
    """A value is not of its parameter's type."""


class ValueOutOfRange(SenderFault, ValueError):
    """A value is of its type, but not among the allowed ones."""


class NoSuchJob(SenderFault, LookupError):
    """There is no such job of this owner on this service."""


class NotFinished(SenderFault):
    """The job has not ended yet."""


class KeyConflict(SenderFault):
    """The idempotency key was used before with other arguments."""


class NoSuchData(SenderFault, LookupError):
    """Data at that reference is not there: never was, has expired, or was revoked."""


class AddressForbidden(SenderFault):
    """The server may not fetch from, or deliver to, that address; the detail names the rule."""


class DataMismatch(SenderFault):
    """Data is not what its reference or its origin says: another digest, another length."""


class NoSuchSession(SenderFault, LookupError):
    """There is no such session of this owner, or it has expired."""


class TransferFailed(ReceiverFault):
    """Data could not be fetched or delivered; the message says what the other end did."""


class QueueFull(ReceiverFault):
    """The queue is full; retryAfter says when to try again."""


class Unavailable(ReceiverFault):
    """The server is being stopped, or its host has no process left for a program; nothing was begun, and retryAfter
    says when to try again."""


class QuotaExceeded(ReceiverFault):
    """A quota is used up; the detail names it."""


class StorageFull(ReceiverFault):
    """The disk is full."""


class ProgramMissing(ReceiverFault):
    """The program does not exist or may not be executed."""


class ProgramFailed(ReceiverFault):
    """The program ended, but not as its description calls success."""


class ProgramKilled(ReceiverFault):
    """A signal ended the program."""


class OutputInvalid(ReceiverFault):
    """The program ended well, but an output that it should have written is missing or wrong."""


class LimitExceeded(ReceiverFault):
    """The job ran into a limit and was stopped; the detail names it."""


class JobKilled(ReceiverFault):
    """The job was killed on request."""


class OutcomeUnknown(ReceiverFault):
    """It cannot be proved whether or how the program ran; it is never run again on its own."""


class NotSupported(SenderFault):
    """This server does not do that (yet); the message says what it can do instead."""


class Internal(ReceiverFault):
    """A fault of our own; the server's log has more."""


def _failure(code: str, message: str, **parts: Any) -> Error:
    """What a journal has of a failure: a fault, or that no answer came."""
    for kind in (Timeout, Unreachable, ConnectionLost):
        if code == kind.__name__:
            return kind(message)
    return _fault(code, message, **parts)


def _fault(code: str, message: str, **parts: Any) -> Fault:
    """The fault of that code; a plain one, if the server knows codes that we do not."""
    found = globals().get(code)
    if isinstance(found, type) and issubclass(found, (SenderFault, ReceiverFault)):
        return found(code, message, **parts)
    return Fault(code, message, **parts)
