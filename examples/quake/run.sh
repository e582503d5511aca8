#!/bin/sh
# The short matrix, in ten minutes: a line for each system, where the reports are, and whether each is what is known of it. run.sh DIRECTORY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
status=0
mkdir -p "$1"
lines=$1/lines
: > "$lines"
for experiment in axis cxf gsoap python fishplate fishplate-program; do
    # 10: one of them can't be trusted, which is what this is to find.
    { fishplate quake run "$here/$experiment.toml" --report "$1/$experiment" || [ $? -eq 10 ] || echo "failed: $experiment"; } |
        tee -a "$lines"
done
! grep -q '^failed: ' "$lines" || status=1

total=0 known=0
while IFS='|' read -r system verdict; do
    said=$(sed -n "s/^$system: \([A-Za-z]*\).*/\1/p" "$lines")
    total=$((total + 1))
    case $said in
        "$verdict") known=$((known + 1)) ;;
        undecided) echo "$system is known to be $verdict, and undecided here: a longer workload.duration decides it" ;;
        *) echo "$system is known to be $verdict, but was ${said:-not judged} here" && status=1 ;;
    esac
done <<KNOWN
Axis 1.2.1, session scope|ZOMBIE
Axis 1.3, session scope|ZOMBIE
Axis 1.4, session scope|ZOMBIE
Axis 1.2.1, request scope|flat
Axis 1.3, request scope|flat
Axis 1.4, request scope|flat
CXF 4.1.4|flat
gSOAP|flat
Spyne 2.14.0|flat
Fishplate, a function|flat
Fishplate, a program|flat
KNOWN
echo "$known of $total systems are what is known of them"
exit $status
