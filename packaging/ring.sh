#!/bin/sh
# Compiles the first program of docs/guides/message-passing.md for the ABI of MPI: ring.sh OUTPUT.
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
source=$(mktemp --suffix .c)
trap 'rm -f "$source"' EXIT
sed -n '/^```c$/,/^```$/{/^```/!p}' "$repository/docs/guides/message-passing.md" > "$source"
cc -I "$repository/crates/mpi/include" "$source" "$repository/target/package/libmpi_abi.so.1" -o "$1"
