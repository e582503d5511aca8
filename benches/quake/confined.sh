#!/bin/sh
# Runs a program in control groups: confined.sh [memory=MIB] [pids=COUNT] PROGRAM ARGUMENT... Memory includes files in the page cache.
# As root; either version of control groups. Groups of earlier runs, empty by now, are removed.
set -eu
root=/sys/fs/cgroup
confine() { # CONTROLLER LIMIT_OF_VERSION_2 LIMIT_OF_VERSION_1 VALUE
    if [ -e $root/cgroup.controllers ]; then groups=$root limit=$2; else groups=$root/$1 limit=$3; fi
    rmdir "$groups"/quake-* 2>/dev/null || :
    mkdir -p "$groups/quake-$$"
    echo "$4" >"$groups/quake-$$/$limit"
    echo $$ >"$groups/quake-$$/cgroup.procs"
}
while :; do
    case $1 in
        memory=*) confine memory memory.max memory.limit_in_bytes $((${1#*=} * 1024 * 1024)) ;;
        pids=*) confine pids pids.max pids.max "${1#*=}" ;;
        *) break ;;
    esac
    shift
done
exec "$@"
