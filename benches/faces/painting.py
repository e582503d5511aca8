"""A service's page in a browser: until something is painted, and from pressing Run until the result is."""

import contextlib
import http.server
import json
import os
import subprocess
import threading
from pathlib import Path

import machine
import preparation
from overhead import spread
from place import Place
from program_faces import written
from server import serving
from tools import Tools

PAGE = Path(__file__).parent / "paint.cjs"
BLANK = b'<!doctype html><html lang="en"><meta charset="utf-8"><title>One word</title><link rel="icon" href="data:,"><p>word'


class Blank(http.server.BaseHTTPRequestHandler):
    """A page of a word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(BLANK)))
        self.end_headers()
        self.wfile.write(BLANK)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def blank():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def measure(tools: Tools, place: Place, rounds: int) -> dict:
    """Visits in turn, each round in a browser's context of its own."""
    preparation.install_packages(set(preparation.missing_packages({"node": "nodejs", "npm": "npm", "chromium": "chromium"})))
    environment = os.environ | {"NODE_PATH": str(preparation.browser(place.interop))}
    loads = [machine.load()]
    with serving(tools.binary, tools.scratch, "add", written(tools.scratch)[1]) as server, blank() as url:
        done = subprocess.run(["node", PAGE, server.url, url, str(rounds)], env=environment, capture_output=True, text=True,
                              check=False, timeout=60 + 60 * rounds)
    if done.returncode != 0:
        raise SystemExit(f"bench: the browser failed:\n{done.stderr[-3000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    loads.append(machine.load())
    return {"rounds": rows, "loads": spread(loads),
            "milliseconds": {name: spread([row[name] for row in rows]) for name in rows[0]},
            "ratio_to_blank": {name: spread([row[name] / row["blank"] for row in rows]) for name in ("first", "again", "run")}}
