"""How long one owner's job waits while another owner's thousand do, and how long those take."""

import re
import statistics
import tempfile
import urllib.request
from pathlib import Path

from server import XML, Server, envelope, serving_words
from tools import Tools

REST = 0.05
PLACES = 2


def measure(tools: Tools, jobs: int) -> dict:
    """One job at a time, alone and then beside the many; the many, with it and from then on alone."""
    place = Path(tempfile.mkdtemp(prefix="fairness-", dir=tools.scratch))
    file = place / "rest.toml"
    file.write_text(f'name = "rest"\ncommand = "/bin/sleep {REST}"\n')
    words = [file, "--user-header", "X-User", "--limit", f"max_running={PLACES}",
             "--limit", f"max_queued={2 * jobs}"]
    with serving_words(tools.binary, place, words) as server:
        alone = [once(tools, server) for _ in range(10)]
        begin = tools.clock()
        many = [spawn(server, "many") for _ in range(jobs)]
        beside = [once(tools, server) for _ in range(10)]
        were_waiting = state(server, "many", many[-1]) == "queued"
        while state(server, "many", many[-1]) != "done":
            tools.sleep(0.02)
        total = tools.clock() - begin
    return {
        "jobs": jobs, "rest": REST, "places": PLACES,
        "one_alone_seconds": statistics.median(alone),
        "one_beside_seconds": {"median": statistics.median(beside), "most": max(beside)},
        "many_were_waiting": were_waiting,
        "many_seconds": total,
    }


def once(tools: Tools, server: Server) -> float:
    """From asking for a job to its end."""
    begin = tools.clock()
    job = spawn(server, "one")
    while state(server, "one", job) != "done":
        tools.sleep(0.005)
    return tools.clock() - begin


def state(server: Server, owner: str, job: str) -> str:
    return re.search(r"state>(\w+)<", ask(server, owner, "status", job)).group(1)


def spawn(server: Server, owner: str) -> str:
    return re.search(r"[0-9a-f]{32}", ask(server, owner, "spawn")).group()


def ask(server: Server, owner: str, verb: str, job: str = "") -> str:
    children = f"<t:job>{job}</t:job>" if job else ""
    headers = {"Content-Type": XML, "X-User": owner}
    request = urllib.request.Request(server.url, envelope(server.name, verb, children), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()
