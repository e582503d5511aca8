"""Data by reference (`?wsdl&data=xdescr`) with the types that zeep makes of the description."""

import base64
import hashlib
import urllib.request
from collections.abc import Callable
from pathlib import Path

import zeep
from lxml import etree

WSA = "{http://www.w3.org/2005/08/addressing}"
XDESCR = "{urn:fishplate:xdescr:1}"
CONTEXT = "{http://docs.oasis-open.org/ws-caf/2005/10/wsctx}"
NAME = 8193  # of the file that goes by reference
ALL = {"outputs": {"output": [{"name": "copy", "as": "reference"}]}}


class References:
    """The checks, against the service `echo-file` and an origin of ours."""

    def __init__(self, echo: zeep.Client, sessions: zeep.Client, origin: str, payloads: str):
        self.echo, self.sessions, self.origin = echo, sessions, origin
        self.data = Path(payloads, f"{NAME}.bin").read_bytes()

    def checks(self) -> dict[str, Callable[[], None]]:
        return {
            "reference-in": self.reference_in,
            "reference-verified": self.verified,
            "reference-out": self.reference_out,
            "reference-through": self.through,
            "reference-value": self.value,
            "reference-xml": self.xml,
            "reference-session": self.session,
        }

    def reference(self, **told) -> dict:
        """What stands for the file at the origin."""
        metadata = [element(name, value) for name, value in told.items()]
        reference = {"Address": {"_value_1": f"{self.origin}/{NAME}.bin"}}
        if metadata:
            reference["Metadata"] = {"_value_1": metadata}
        return {"EndpointReference": reference}

    def reference_in(self):
        same(self.echo.service.call(data=self.reference()).Value, self.data)

    def verified(self):
        told = {"Length": len(self.data), "Digest": digest(self.data)}
        same(self.echo.service.call(data=self.reference(**told)).Value, self.data)
        wrong = {**told, "Digest": digest(b"other bytes")}
        try:
            self.echo.service.call(data=self.reference(**wrong))
        except zeep.exceptions.Fault as fault:
            (code,) = [field.text for field in fault.detail[0] if etree.QName(field).localname == "code"]
            same(code, "DataMismatch")
            return
        raise AssertionError("no fault")

    def reference_out(self):
        found = self.echo.service.call(data={"Value": self.data}, _soapheaders=ALL)
        same(found.Value, None)
        address = found.EndpointReference.Address._value_1
        with urllib.request.urlopen(address, timeout=30) as answer:
            same(answer.read(), self.data)
        # The digest of what was just made may not be known yet.
        told = {etree.QName(item).localname: item.text for item in found.EndpointReference.Metadata._value_1}
        expected = {"Length": str(len(self.data)), "Digest": digest(self.data)}
        same(expected | told, expected)

    def through(self):
        """What the first call gives goes into the second as it is."""
        first = self.echo.service.call(data=self.reference(), _soapheaders=ALL)
        second = self.echo.service.call(data={"EndpointReference": first.EndpointReference})
        same(second.Value, self.data)

    def value(self):
        found = self.echo.service.call(data={"Value": self.data})
        same((found.Value, found.EndpointReference), (self.data, None))

    def xml(self):
        model = etree.fromstring('<GeoModel GeoModelID="PipeExample"><volume>1 &lt; 2</volume></GeoModel>')
        sent = etree.tostring(model, method="c14n")
        found = etree.fromstring(self.echo.service.call(data={"XMLData": {"_value_1": model}}).Value)
        same(etree.tostring(found, method="c14n", exclusive=True), sent)

    def session(self):
        """In a session outputs stay at the server; a WS-Context says which session."""
        opened = self.sessions.service.open()
        name = opened if isinstance(opened, str) else opened.session
        context = etree.Element(CONTEXT + "context")
        etree.SubElement(context, CONTEXT + "context-identifier").text = f"urn:fishplate:session:{name}"
        first = self.echo.service.call(data={"Value": self.data}, _soapheaders=[context])
        above, file = first.EndpointReference.Address._value_1.rsplit("/", 1)
        if "/session/" not in above or name in above:
            raise AssertionError(f"no address of its own in the session: {above}")
        kept = {"EndpointReference": {"Address": {"_value_1": f"session:{file}"}}}
        by_value = {"session": name, "outputs": {"output": [{"name": "copy", "as": "value"}]}}
        same(self.echo.service.call(data=kept, _soapheaders=by_value).Value, self.data)
        self.sessions.service.close(session=name)


def element(name: str, value: object) -> etree._Element:
    made = etree.Element(XDESCR + name)
    made.text = str(value)
    return made


def digest(data: bytes) -> str:
    """RFC 9530."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def same(found, wanted) -> None:
    if found != wanted:
        raise AssertionError(f"found {str(found)[:200]}, wanted {str(wanted)[:200]}")
