#!/bin/sh
# The ledger once no job waits or runs any more, five minutes at most: ledger-settled.sh DIRECTORY PORT
set -eu
for _ in $(seq 300); do
    open=$(curl -sf "http://127.0.0.1:$2/metrics" | awk '/^fishplate_jobs_(queued|running)/ { open += $NF } END { print open + 0 }')
    [ "$open" != 0 ] || break
    sleep 1
done
[ "$open" = 0 ] || { echo "$open jobs have not ended" >&2 && exit 1; }
cat "$1/ledger"
