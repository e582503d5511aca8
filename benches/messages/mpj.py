"""MPJ Express (mpiJava's API) from Debian: its program, and what its daemons do for ranks, who tell a server their ports and get all."""

import shutil
import socket
import struct
import subprocess
import threading
from pathlib import Path

import preparation
from place import Place

HERE = Path(__file__).resolve().parent
JARS = Path("/usr/share/java")
ENVIRONMENT = (("MPJ_HOME", "/usr/share/mpj"),)


def class_path(place: Place) -> str:
    """With the program, which is compiled once."""
    needs = preparation.missing_packages({command: package for command, package in preparation.JAVA.items()
                                          if command != "mvn"})
    if not (JARS / "mpj.jar").exists():
        needs.append("libmpj-java")
    preparation.install_packages(set(needs))
    jars = ":".join(str(JARS / f"{jar}.jar") for jar in ("mpj", "log4j-1.2", "commons-io", "commons-codec"))

    def make(directory: Path) -> None:
        subprocess.run(["javac", "-cp", jars, "-d", directory, HERE / "Program.java"], check=True)

    return f"{place.build('mpj', make, HERE / 'Program.java')}:{jars}"


def commands(classes: str, ranks: int, path: Path) -> list[list[str]]:
    """Each rank by itself, with its rank, where the server is, and the device."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=introduce, args=(listening, ranks), daemon=True).start()
    where = (f"#Number of Processes;{ranks};#Protocol Switch Limit;131072;#Server Name;127.0.0.1;"
             f"#Server Port;{listening.getsockname()[1]}")
    java = [str(shutil.which("java")), "-Xmx1g", "-XX:+UseSerialGC", "-cp", classes, "Program"]
    return [[*java, str(rank), where, "niodev", str(path)] for rank in range(ranks)]


def introduce(listening: socket.socket, ranks: int) -> None:
    """Tells each rank where all are, once all have told it (`runtime.common`'s exchange of ports)."""
    connections, peers = [], []
    with listening:
        for _ in range(ranks):
            connection, _ = listening.accept()
            connections.append(connection)
            file = connection.makefile("rb")
            (length,) = struct.unpack(">H", file.read(2))
            file.read(length)  # "Sending Info"
            write, read, rank = struct.unpack(">3i", file.read(12))
            peers.append((rank, f"127.0.0.1@{read}@{write}@{rank}"))
    told = ";".join(["#Peer Information", *(peer for _, peer in sorted(peers))]).encode()
    for connection in connections:
        with connection:
            connection.sendall(struct.pack(">H", len(told)) + told)
