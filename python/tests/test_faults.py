"""What can go wrong, and its parts."""

from __future__ import annotations

import inspect
import pickle
import socket

import pytest
from conftest import Services
from server import Hosted

import fishplate
from fishplate import _native, errors


def test_every_code_has_its_class_and_no_class_is_without_a_code() -> None:
    codes = _native.fault_codes()
    classes = {
        name: found
        for name, found in vars(errors).items()
        if inspect.isclass(found)
        and issubclass(found, (errors.SenderFault, errors.ReceiverFault))
        and found not in (errors.SenderFault, errors.ReceiverFault)
    }
    assert sorted(classes) == sorted(code for code, _, _ in codes)
    for code, sender, meaning in codes:
        base = errors.SenderFault if sender else errors.ReceiverFault
        assert issubclass(classes[code], base), code
        assert " ".join((classes[code].__doc__ or "").split()) == meaning, code
        assert type(errors._fault(code, "m")) is classes[code]


def test_a_code_that_we_do_not_know_is_a_plain_fault() -> None:
    for code in ("FromTheFuture", "Error", "Limit", "Fault"):
        fault = errors._fault(code, "m", retry_after=3.0)
        assert type(fault) is errors.Fault
        assert (fault.code, fault.retry_after) == (code, 3.0)


def test_a_program_that_fails_tells_how(service: Services) -> None:
    with pytest.raises(errors.ProgramFailed) as caught:
        service("fails")(how="exit")
    fault = caught.value
    assert (fault.code, fault.exit_code, fault.signal) == ("ProgramFailed", 3, None)
    assert fault.stderr is not None and "it failed as told" in fault.stderr
    assert fault.job is not None and len(fault.job) == 32
    assert "three is what it says" in fault.message
    assert "it failed as told" in str(fault)


def test_a_signal_and_a_missing_output(service: Services) -> None:
    with pytest.raises(errors.ProgramKilled) as caught:
        service("fails")(how="signal")
    assert caught.value.signal == "SIGSEGV"
    with pytest.raises(errors.OutputInvalid) as missing:
        service("fails")(how="nothing")
    assert missing.value.parameter == "written"


def test_a_limit_is_told_by_name_and_value(service: Services) -> None:
    with pytest.raises(errors.LimitExceeded) as caught:
        service("fails")(how="large")
    assert caught.value.limit is not None
    assert caught.value.limit.name == "output_size"
    assert caught.value.limit.value


def test_a_value_that_the_service_refuses_is_a_value_error(service: Services) -> None:
    with pytest.raises(ValueError) as caught:
        service("echo")(int=-11, changed=b"")
    assert isinstance(caught.value, errors.ValueOutOfRange)
    assert caught.value.parameter == "int"
    with pytest.raises(errors.InvalidValue):
        service("echo")(int="three", changed=b"")


def test_connection_errors_are_no_faults(hosted: Hosted) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/x"
        with pytest.raises(fishplate.Unreachable) as caught:
            fishplate.Service(url)
    assert isinstance(caught.value, ConnectionError)
    assert not isinstance(caught.value, fishplate.Fault)
    with pytest.raises(errors.BadUrl):
        fishplate.Service("no url")
    with pytest.raises(fishplate.NotUnderstood):
        fishplate.Service(f"{hosted.url}/metrics")


def test_an_exchange_may_not_take_longer_than_allowed(service: Services) -> None:
    countdown = service("countdown")
    with pytest.raises(fishplate.Timeout, match="no answer") as caught:
        countdown.options(timeout=0.3)(steps=1000, pause=1)
    assert isinstance(caught.value, TimeoutError)
    for status in countdown.jobs(state="running"):
        countdown.job(status.id).kill()


def test_faults_can_be_pickled() -> None:
    fault = errors._fault("ProgramFailed", "it failed", exit_code=3, limit=("a", "b"), stderr="no")
    again = pickle.loads(pickle.dumps(fault))
    assert type(again) is errors.ProgramFailed
    assert vars(again) == vars(fault)
