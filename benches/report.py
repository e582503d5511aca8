"""The table of BENCHMARKING.md from the results: figures only as they were measured."""

import json
import re
import statistics
from pathlib import Path

import dependability
import killed
import problem

BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of figures -->"


def row(name: str, found: dict) -> str:
    return "\n".join(ROWS[name](found))


def overhead(found: dict) -> list[str]:
    times = found["microseconds"]
    median = {name: times[name]["median"] for name in times}
    least = {name: times[name]["least"] for name in times}
    executor = found["executor"]
    added = found["added_microseconds"]
    line = lambda what, key: f"| {what} | {median[key]:.0f} µs | {least[key]:.0f} µs |"  # noqa: E731
    return [
        f"### Overhead of `call` on {found['program']}", "",
        under(found, f"{found['load']['least']} to {found['load']['most']}; other processes took "
                     f"{found['cores_of_others']['median']} cores"), "",
        "| one at a time, one keep-alive connection | median | least |", "|---|---|---|",
        line("the program, by `posix_spawn` and wait", "bare"),
        line("a page (HTTP alone)", "page"),
        line("`running` (HTTP, SOAP, read of the store)", "running"),
        line("`call`", "call"), "",
        f"Added by `call`: **{added['median'] / 1000:.2f} ms** between the medians, "
        f"{added['least'] / 1000:.2f} ms between the least; in {found['rounds']} rounds alone "
        f"{added['by_round']['least'] / 1000:.2f} to {added['by_round']['most'] / 1000:.2f} ms, median "
        f"{added['by_round']['median'] / 1000:.2f} ms. Of it HTTP {median['page']:.0f} µs, SOAP and a "
        f"read of the store {median['running'] - median['page']:.0f} µs; the supervisors alone add "
        f"{executor['microseconds'] - executor['bare_microseconds']:.0f} µs "
        f"(`cargo bench -p fishplate-jobs`).",
    ]


def fairness(found: dict) -> list[str]:
    beside = found["one_beside_seconds"]
    return [
        f"### One job beside another owner's {found['jobs']}", "",
        under(found, f"{found['load_before']:.1f}"), "",
        f"Jobs of {found['rest']} s, {found['places']} at once. One owner's job takes "
        f"{found['one_alone_seconds']:.2f} s alone, and **{beside['median']:.2f} s** (at most "
        f"{beside['most']:.2f} s) while another's {found['jobs']} wait, which take "
        f"{found['many_seconds']:.0f} s: behind all of them it would have waited as long.",
    ]


def throughput(found: dict) -> list[str]:
    lines = [
        f"### Calls a second, {found['clients']} clients", "",
        under(found, f"{found['loads']['least']} to {found['loads']['most']}"), "",
        f"| program | spawn and wait, {found['in_flight']} in flight | `call`, wrk on the same cores "
        f"| ratio of medians | in rounds | processor time each | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, side in found["programs"].items():
        rate, cpu, ratios = side["a_second"], side["cpu_microseconds"], side["ratio_of_rounds"]
        lines.append(
            f"| {name} | {rate['bare']:.0f} a second | {rate['call']:.0f} a second "
            f"| **{side['ratio_of_medians']:.2f}** | {ratios['least']} to {ratios['most']} "
            f"| {cpu['bare']:.0f} µs, {cpu['call']:.0f} µs | {cpu['bare'] / cpu['call']:.2f} |")
    return lines


def workflow(found: dict) -> list[str]:
    times, many = found["seconds_a_step"], found["many"]
    shell = times["shell"]["median"]
    names = {"shell": "a shell script, files moved", "service": "through a service, by reference",
             "run": "through a run, by reference, journalled"}
    lines = [
        f"### A loop of {found['steps']} steps of {found['work'] * 1000:.0f} ms", "",
        under(found, f"{found['load']['least']:.2f} to {found['load']['most']:.2f}"), "",
        "| a step | median of rounds | least | added |", "|---|---|---|---|",
    ]
    for name, what in names.items():
        median, least = (times[name][kind] * 1000 for kind in ("median", "least"))
        lines.append(f"| {what} | {median:.2f} ms | {least:.2f} ms | {median - shell * 1000:.2f} ms |")
    for engine in found["engines"]:
        median, least = (engine["seconds_a_step"][kind] * 1000 for kind in ("median", "least"))
        load = "load {least:.1f} to {most:.1f}".format(**engine["load"]) if "load" in engine else "load not noted"
        what = f"{engine['name']} {engine['version']}, {engine['steps']} steps, {load}"
        lines.append(f"| {what} | {median:.2f} ms | {least:.2f} ms | {median - shell * 1000:.2f} ms |")
    return [
        *lines, "",
        "Of other engines the time of so many steps without that of one is shared by the steps; Snakemake and cwltool are told "
        "all steps beforehand, Parsl and Prefect keep what each gave. "
        f"Bytes through the workflow's own process: {found['bytes_a_step']:.0f} a step. {many['steps']} steps of `cat` in "
        f"one run took {many['seconds']:.1f} s; resumed, they were all there again after "
        f"**{many['resumed_seconds']:.2f} s**, from a journal of {mebibytes(many['journal_bytes'])}. A study of "
        f"{found['steps']} cases of that program took {found['study_seconds']['first']:.1f} s, and in another run "
        f"with `reuse` {found['study_seconds']['reused']:.1f} s.",
    ]


def streams(found: dict) -> list[str]:
    lines = [
        f"### Streams of {found['bytes'] / 2**30:.0f} GiB, in and out of one call", "",
        under(found, f"{found['load_before']:.1f} to {found['load_after']:.1f}"), "",
        "| packaging | server's memory at most | client's | time there and back |",
        "|---|---|---|---|",
    ]
    for name, side in found["packagings"].items():
        lines.append(f"| {name} | {side['server_memory'] / 2**20:.0f} MiB "
                     f"| {side['client_memory'] / 2**20:.0f} MiB | {side['seconds']:.1f} s |")
    made = found.get("made", {})
    if made:
        lines += ["", "Made while it is sent by `stream`, passed on by a client to another, read by `checksum` while it "
                  "arrives:", "",
                  "| packaging | server's memory at most | a client's | time |", "|---|---|---|---|"]
    for name, side in made.items():
        lines.append(f"| {name} | {side['server_memory'] / 2**20:.0f} MiB "
                     f"| {side['client_memory'] / 2**20:.0f} MiB | {side['seconds']:.1f} s |")
    return lines


def transfer(found: dict) -> list[str]:
    names = {
        "fetch": "nginx to disk, curl", "in_server": "in: curl to the server",
        "in_client": "in: `fishplate call URL data:FILE`", "out_server": "out: server to disk, curl",
        "out_client": "out: `fishplate call URL out:data=FILE`",
    }
    lines = [
        f"### {found['bytes'] / 1e9:.0f} GB through MTOM", "",
        under(found, f"{min(found['loads'])} to {max(found['loads'])}; {found['file_system']}"), "",
        "| | median | least | MB/s | ratio of medians | of least |", "|---|---|---|---|---|---|",
    ]
    for key, name in names.items():
        lines.append(
            f"| {name} | {found['median_seconds'][key]:.2f} s | {found['least_seconds'][key]:.2f} s "
            f"| {found['megabytes_a_second'][key]:.0f} | {found['ratio_of_medians'][key]:.2f} "
            f"| {found['ratio_of_least'][key]:.2f} |")
    memory = found["server_memory"]
    return [*lines, "", f"Most memory of the server (VmHWM): in {mebibytes(memory['in']['VmHWM'])}, "
                        f"out {mebibytes(memory['out']['VmHWM'])}."]


def tls(found: dict) -> list[str]:
    names = {
        "fetch": "nginx to a file, curl", "in_server": "in: curl to the server", "out_server": "out: server to a file, curl",
        "in_client": "in: `fishplate call URL data:FILE`", "out_client": "out: `fishplate call URL out:data=FILE`",
        "nginx": f"200 bytes of nginx, {found['clients']} connections", "call": f"an addition, {found['clients']} connections",
    }
    lines = [
        f"### {found['bytes'] / 1e6:.0f} MB and small calls over TLS ({found['cipher']})", "",
        under(found, f"{min(found['loads'])} to {max(found['loads'])}"), "",
        "| | plain, least | TLS, least | TLS / plain | median of the rounds' ratios | in rounds |",
        "|---|---|---|---|---|---|",
    ]
    for key, name in names.items():
        seconds, ratio = found["seconds"][key], found["tls_to_plain"][key]
        shown = (lambda s: f"{s * 1e6:.1f} µs") if key in ("nginx", "call") else (lambda s: f"{s:.2f} s")
        plain, encrypted = seconds["plain"]["least"], seconds["tls"]["least"]
        lines.append(f"| {name} | {shown(plain)} | {shown(encrypted)} | {encrypted / plain:.2f} "
                     f"| {ratio['median']:.2f} | {ratio['least']:.2f} to {ratio['most']:.2f} |")
    return lines


def gateway(found: dict) -> list[str]:
    times = found["one_way_seconds"]
    sizes = [int(n) for n in times["raw"]]
    lines = [
        "### Messages through gateways, and over TLS", "",
        under(found, f"{found['load']['least']} to {found['load']['most']}"), "",
        "PingPong of two ranks, least one-way times. Through gateways each rank's server passes on what comes for it, which is a read, a "
        f"write and two switches of processes more. The cipher is {found['cipher']}: OpenSSL's `speed` encrypts "
        f"{found['cipher_bytes_a_second'] / 1e9:.2f} GB/s of records with it, and a message is encrypted and decrypted once each.", "",
        "| bytes | raw TCP | direct | through gateways | to direct | gateways over TLS | to plain gateways | TLS adds | the cipher alone |",
        "|" + "---|" * 9,
    ]  # fmt: skip
    for n in sizes:
        raw, direct, plain, encrypted = (times[way][str(n)]["least"] * 1e6 for way in ("raw", "direct", "gateway", "gateway, TLS"))
        alone = 2 * 8 * n * n / found["cipher_bytes_a_second"] * 1e6
        lines.append(f"| {8 * n * n:,} | {raw:.1f} µs | {direct:.1f} µs | {plain:.1f} µs | {plain / direct:.2f} | {encrypted:.1f} µs "
                     f"| {encrypted / plain:.2f} | {encrypted - plain:.1f} µs | {alone:.1f} µs |")  # fmt: skip
    return lines


def soak(found: dict) -> list[str]:
    before, after, slope = found["before"], found["after"], found["bytes_per_call"]
    lines = [
        f"### {found['calls']:,} calls", "",
        under(found, f"{min(found['loads'])} to {max(found['loads'])}"), "",
        f"Resident memory grows by {slope['server']:.2f} bytes a call in the server (anonymous: "
        f"{slope['server_anonymous']:.2f}) and {slope['supervisor']:.2f} in the supervisor (least squares "
        f"after the first fifth); {found['calls'] / found['seconds']:.0f} calls a second.", "",
        "| | before | after |", "|---|---|---|",
    ]
    for key, name in (("server_descriptors", "descriptors of the server"),
                      ("supervisor_descriptors", "descriptors of the supervisor"),
                      ("supervisors", "supervisor and runners"), ("programs", "programs"),
                      ("server_threads", "threads of the server"),
                      ("files", "files and directories of the data directory"),
                      ("bytes", "bytes of the data directory")):
        lines.append(f"| {name} | {before[key]:,} | {after[key]:,} |")
    lines.append(f"| resident memory of the server | {mebibytes(before['server_memory']['VmRSS'])} | "
                 f"{mebibytes(after['server_memory']['VmRSS'])} |")
    return lines


def small(found: dict) -> list[str]:
    return [
        f"### Small calls a second, {found['clients']} clients", "",
        under(found, f"{found['loads']['least']} to {found['loads']['most']}"), "",
        *beside_hyper(found, "server", "to bare hyper"),
    ]


def beside_hyper(found: dict, side: str, ratio_to: str) -> list[str]:
    """What `small.run` found."""
    lines = [f"| {side} | calls a second | {ratio_to} | in rounds | processor time each |", "|---|---|---|---|---|"]
    for title, of in found["sides"].items():
        ratio = of["ratio_to_bare"]
        lines.append(f"| {title} | {of['a_second']:,.0f} | **{ratio['median']:.2f}** "
                     f"| {ratio['least']} to {ratio['most']} | {of['cpu_microseconds']:.1f} µs |")
    return lines


def faces(found: dict) -> list[str]:
    """Of all its parts, or of those that were measured."""
    lines = ["### Faces for people and tools", "", under(found, f"{found['load_before']:.1f} before")]
    for name, lines_of in FACES.items():
        if part := found.get(name):
            lines += ["", *lines_of(part)]
    return lines


def loads(part: dict) -> str:
    return f"load {part['loads']['least']} to {part['loads']['most']}"


def face_calls(part: dict) -> list[str]:
    return [f"An addition within the server, {part['clients']} clients ({loads(part)}):", "",
            *beside_hyper(part, "", "to bare hyper with its bytes")]


def program_faces(part: dict) -> list[str]:
    lines = [f"A shell script that adds two numbers, {part['program_microseconds'] / 1000:.2f} ms by itself, through OGC API - Processes "
             f"(pygeoapi {part['pygeoapi']}, {part['workers']} workers; {loads(part)}):", "",
             f"| | calls a second, {part['clients']} clients | to Fishplate, in rounds | processor time each | added for one client "
             f"| memory after {part['calls']:,} calls (shared pages once) | before |", "|---|---|---|---|---|---|---|"]
    for title, side in part["sides"].items():
        added, ratio, memory = side["added_microseconds"], side["ratio_to_ours"], side["memory"]
        lines.append(
            f"| {title} | {side['a_second']:,.0f} | **{ratio['median']:.2f}** ({ratio['least']} to {ratio['most']}) "
            f"| {side['cpu_microseconds'] / 1000:.2f} ms | {added['median'] / 1000:.2f} ms ({added['least'] / 1000:.2f} to "
            f"{added['most'] / 1000:.2f}) | {mebibytes(memory['after']['Rss'])} ({mebibytes(memory['after']['Pss'])}), "
            f"{memory['processes']} processes | {mebibytes(memory['before']['Rss'])} ({mebibytes(memory['before']['Pss'])}) |")
    for title, why in part["left_out"].items():
        lines += ["", f"Without {title}: {why}."]
    return lines


def job_list(part: dict) -> list[str]:
    few, jobs = str(part["few"]), str(part["jobs"])
    lines = [f"The first page of a list of {part['jobs']:,} jobs ({loads(part)}):", "",
             f"| | of {part['jobs']:,} jobs | of {part['few']} | ratio, median of rounds | in rounds |", "|---|---|---|---|---|"]
    for query, found in part["queries"].items():
        times, ratio = found["microseconds"], found["ratio"]
        lines.append(f"| {query} | {times[jobs] / 1000:.2f} ms | {times[few] / 1000:.2f} ms | **{ratio['median']:.2f}** "
                     f"| {ratio['least']} to {ratio['most']} |")
    return lines


def painting(part: dict) -> list[str]:
    names = {"blank": "a page of one word, from Python's `http.server`", "first": "a service's page, first visit",
             "again": "the same, from then on", "run": "from pressing Run until its result is painted"}
    lines = [f"In Chromium, without a window; {len(part['rounds'])} rounds ({loads(part)}):", "",
             "| until something is painted | median | in rounds | to the page of one word |", "|---|---|---|---|"]
    for name, title in names.items():
        times, ratio = part["milliseconds"][name], part["ratio_to_blank"].get(name)
        lines.append(f"| {title} | {times['median']:.0f} ms | {times['least']:.0f} to {times['most']:.0f} ms "
                     f"| {ratio['median'] if ratio else ''} |")
    return lines


def watching(part: dict) -> list[str]:
    lines = [f"Pages of one job that are open, for {part['seconds']} s ({loads(part)}):", "",
             "| pages | the job | memory of the server, each page | a core's share, and with one page | each page, each second | opened in "
             "| a line has reached the first page | all of them | at most |",
             "|---|---|---|---|---|---|---|---|---|"]
    for count, jobs in part["viewers"].items():
        for job, found in jobs.items():
            times = found.get("milliseconds")
            told = (f"{times['first']['median']:.0f} ms | {times['last']['median']:.0f} ms | {times['last']['most']:.0f} ms"
                    if times else "| |")
            lines.append(f"| {int(count):,} | {job} | {found['bytes_each'] / 1024:.1f} KiB | {found['cores']:.1%}, "
                         f"{found['cores_of_one']:.1%} | {found['microseconds_each_second']:.1f} µs "
                         f"| {found['opened_seconds']:.2f} s | {told} |")
    for count, why in part["left_out"].items():
        lines += ["", f"Not {int(count):,}: {why}."]
    return lines


FACES = {"calls": face_calls, "program": program_faces, "list": job_list, "page": painting, "viewers": watching}


def pipe(found: dict) -> list[str]:
    loads = found["load"]
    where = f", sites across links ({found['link']})" if "link" in found else ""
    return [f"### The Pipe Problem, one step, {found['size']}{where}", "",
            under(found, f"{loads['least']:.2f} to {loads['most']:.2f}"), "", *problem.tables(found)]


def pipe_killed(found: dict) -> list[str]:
    loads = found["load"]
    return [f"### The Pipe Problem, {found['steps']} steps, {found['size']}, killed at random", "",
            under(found, f"{loads['least']:.2f} to {loads['most']:.2f}"), "", *killed.table(found)]


def quake(found: dict) -> list[str]:
    lines = ["### What QUAKE says of Fishplate", "", under(found, f"{found['load_before']:.1f}"), "",
             "| experiment | verdict | right a second | latency, median and 99 % | refused, 99 % of them within | available to clients "
             "| back after a failure, median | lost, doubled |", "|---|---|---|---|---|---|---|---|"]
    for name in (name for name in dependability.EXPERIMENTS if name in found["experiments"]):
        of = found["experiments"][name]
        for cell in of["cells"]:
            lines.append("| " + " | ".join([
                " ".join([name, *of["settings"]]), f"{cell['system']}: {cell['sentence']}", f"{cell['goodput']:.0f}",
                milliseconds(cell["latency"], "p50", "p99"), milliseconds(cell["refusal"], "p99"),
                f"{available(cell):.2%}", back(cell["failures"]), audited(cell["audit"])]) + " |")
    if watching := found.get("watching"):
        lines += ["", f"Watched, the server gives {bounds(watching['rate'])} of what it gives alone, for "
                  f"{bounds(watching['processor'])} of the processor time a call (means of {len(watching['rounds'])} pairs of "
                  f"{watching['seconds']} s, with bounds of 95 %); the watching itself uses {watching['watching_cores']:.2%} of a core."]
    if beside := found.get("generator"):
        lines += ["", f"The generator beside wrk and k6, {beside['clients']} clients, calls of {beside['naps'][0]} to {beside['naps'][1]} ms "
                  "(medians of rounds; ratios QUAKE's to theirs, each round's own):", "",
                  "| | QUAKE | wrk | ratio | k6 | ratio |", "|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join([said, f"{beside['quake'][what]:,.0f}", *(
            word for peer in dependability.PEERS
            for word in (f"{beside[peer][what]:,.0f}", f"{beside['ratio'][peer][what]['median']:.2f}"))]) + " |"
            for what, said in GENERATOR.items()]
    if taken := found.get("taken"):
        lines += ["", "Taken: " + "; ".join(f"{name} {of['date']}, {of['commit']}, load {of['load']}"
                                            for name, of in taken.items()) + "."]
    return lines


GENERATOR = {"a_second": "calls a second", "p50": "median, µs", "p90": "90 %, µs", "p99": "99 %, µs",
             "cpu_microseconds": "its processor time a call, µs"}


def bounds(of: dict) -> str:
    return f"{of['mean']:.4f} ({of['lower']:.4f} to {of['upper']:.4f})"


def milliseconds(quantiles: dict | None, *names: str) -> str:
    return ", ".join(f"{quantiles[name] / 1000:.1f} ms" for name in names) if quantiles else ""


def back(failures: list[dict]) -> str:
    times = [failure["to_recover"] for failure in failures if failure.get("to_recover") is not None]
    return f"{statistics.median(times):.1f} s ({len(times)} of {len(failures)})" if times else ""


def available(cell: dict) -> float:
    """Right answers in time, of all requests but those that clients left: as QUAKE has it now, whenever the cell was kept."""
    counts = cell["outcomes"]
    return counts["right"] / max(1, sum(counts.values()) - counts.get("abandoned", 0) + cell["generator"]["held_back"])


def audited(found: dict | None) -> str:
    return f"{found['lost']}, {found['doubled']} of {found['answered']:,}" if found else ""


ROWS = {"overhead": overhead, "throughput": throughput, "transfer": transfer, "tls": tls, "gateway": gateway, "streams": streams,
        "soak": soak, "fairness": fairness, "workflow": workflow, "small": small, "faces": faces, "quake": quake,
        **{f"{name}{way}": pipe for name in problem.MEASUREMENTS for way in ("", "-link")}, "pipe-killed": pipe_killed}


def under(found: dict, load: str) -> str:
    machine = found["machine"]
    return (f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux "
            f"{machine['kernel']}; {machine['date']}, {machine['commit']}; `{found['command']}`; "
            f"load {load}.")


def mebibytes(value: dict | int) -> str:
    return f"{value / 2**20:.1f} MiB"


def write(page: Path, results: Path) -> None:
    parts = []
    for name in ROWS:
        file = results / f"{name}.json"
        if file.exists():
            parts.append(row(name, json.loads(file.read_text())))
    figures = "\n\n".join(parts)
    pattern = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    text = page.read_text()
    page.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{figures}\n\n{END}", text))
