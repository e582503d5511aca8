"""A workflow with a loop, branches and data by reference: study.py DIRECTORY STARTS ROUNDS PAUSE TALLY SORT GZIP"""

from __future__ import annotations

import hashlib
import sys

import fishplate


def main() -> None:
    directory, starts, rounds, pause, *urls = sys.argv[1:]
    with fishplate.Run("study", directory, retries=20, patience=60, progress=False) as run:
        tally, sort, gzip = map(run.service, urls)
        x = run.value(lambda: 7)
        for round in range(int(rounds)):

            def case(index: int, x: int = x, round: int = round) -> int:
                y = int(tally(starts=starts, tag=f"{round}:{index}:a", x=x + index, pause=pause).next)
                return int(tally(starts=starts, tag=f"{round}:{index}:b", x=y, pause=pause).next)

            found = run.map(case, range(2))
            words = sort(text="".join(f"{number}\n" for number in found).encode()).sorted
            packed = gzip(plain=words, level=1).packed
            x = int(tally(starts=starts, tag=f"{round}:sum", x=sum(found) % 1000, pause=pause).next)
            run.progress("x", x)
        print(x, hashlib.sha256(packed.bytes()).hexdigest(), flush=True)


main()
