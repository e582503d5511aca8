#!/bin/sh
# The short matrix, in ten minutes: a line for each system, and where the reports are. run.sh DIRECTORY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
status=0
for experiment in axis cxf gsoap python fishplate fishplate-program; do
    # 10: one of them can't be trusted, which is what this is to find.
    fishplate quake run "$here/$experiment.toml" --report "$1/$experiment" || [ $? -eq 10 ] || status=1
done
exit $status
