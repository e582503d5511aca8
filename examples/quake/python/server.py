"""Spyne as its documentation serves it, with threads: server.py PORT"""

import logging
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from spyne import Application, ServiceBase, rpc
from spyne.model.primitive import Integer64
from spyne.protocol.soap import Soap11
from spyne.server.wsgi import WsgiApplication


class Arithmetic(ServiceBase):
    @rpc(Integer64, Integer64, _returns=Integer64)
    def add(ctx, x, y):  # noqa: N805  (a class method of Spyne's own kind)
        return x + y


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Quiet(WSGIRequestHandler):
    def log_message(self, *words: object) -> None:
        pass


def main() -> None:
    logging.disable(logging.WARNING)
    application = Application([Arithmetic], "urn:quake", in_protocol=Soap11(validator="lxml"), out_protocol=Soap11())
    make_server("127.0.0.1", int(sys.argv[1]), WsgiApplication(application), Server, Quiet).serve_forever()


if __name__ == "__main__":
    main()
