"""A process of pygeoapi that runs a program, as its documentation says one is written."""

import os
import subprocess

from pygeoapi.process.base import BaseProcessor

NUMBER = {"title": "number", "schema": {"type": "integer"}, "minOccurs": 1, "maxOccurs": 1}

PROCESS = {
    "version": "1.0.0", "id": "add", "title": "add", "description": "Adds two numbers.",
    "jobControlOptions": ["sync-execute", "async-execute"], "keywords": [], "links": [],
    "inputs": {"x": NUMBER, "y": NUMBER},
    "outputs": {"sum": {"title": "sum", "schema": {"type": "object", "contentMediaType": "application/json"}}},
    "example": {"inputs": {"x": 1, "y": 2}},
}


class ProgramProcessor(BaseProcessor):
    def __init__(self, definition):
        super().__init__(definition, PROCESS)

    def execute(self, data, outputs=None):
        command = [os.environ["BENCH_PROGRAM"], str(int(data["x"])), str(int(data["y"]))]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return "application/json", {"sum": int(done.stdout)}
