"""The program of a job that is watched: writes each so many seconds a line `NUMBER NANOSECONDS`; with 0 nothing at all."""

import sys
import time

pause = float(sys.argv[1])
if not pause:
    time.sleep(3600)
begin = time.monotonic()
for number in range(int(3600 / pause)):
    print(number, time.monotonic_ns(), flush=True)
    time.sleep(max(0.0, begin + (number + 1) * pause - time.monotonic()))
