"""The ways in which zeep logs in: docs/guides/logins.md shows them."""

import os

import requests
import zeep
from zeep.wsse.username import UsernameToken


class Logins:
    """Each against a server that asks who calls, and lets whoever asks read its WSDL."""

    def __init__(self) -> None:
        self.url, self.password, self.token, self.digest_token = (
            os.environ[f"INTEROP_LOGIN_{name}"] for name in ("URL", "PASSWORD", "TOKEN", "DIGEST_TOKEN"))

    def checks(self) -> dict:
        return {"login-basic": lambda: calls(self.basic()), "login-bearer": lambda: calls(self.bearer()),
                "login-text": lambda: calls(self.text()), "login-digest": lambda: calls(self.digest()),
                "login-refused": self.refused}

    def basic(self) -> zeep.Client:
        url, password = self.url, self.password
        session = requests.Session()
        session.auth = ("alice", password)
        return zeep.Client(url, transport=zeep.Transport(session=session))

    def bearer(self) -> zeep.Client:
        url, token = self.url, self.token
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {token}"
        return zeep.Client(url, transport=zeep.Transport(session=session))

    def text(self) -> zeep.Client:
        url, password = self.url, self.password
        return zeep.Client(url, wsse=UsernameToken("alice", password))

    def digest(self) -> zeep.Client:
        url, token = self.url, self.digest_token
        return zeep.Client(url, wsse=UsernameToken("alice", token, use_digest=True))

    def refused(self) -> None:
        for wsse in (None, UsernameToken("alice", "wrong"), UsernameToken("alice", "wrong", use_digest=True)):
            try:
                zeep.Client(self.url, wsse=wsse).service.call(x=1, y=2)
            except zeep.exceptions.Fault as fault:
                code = "Client" if wsse is None else "FailedAuthentication"
                if fault.code.split(":")[-1] == code and fault.message:
                    continue
                raise
            raise AssertionError("it was let in")


def calls(client: zeep.Client) -> None:
    # Twice: each message has a token of its own.
    found = [client.service.call(x=1, y=2), client.service.call(x=2, y=3)]
    if found != [3, 5]:
        raise AssertionError(f"found {found}")
