#!/bin/sh
# Installs the wheel into an environment of its own: wheel-test.sh WHEEL. The command and the module work together.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
directory=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet "$1"
cd "$directory"
cat > scale.toml <<'SERVICE'
command = "cp [in file of:double[n]] [out file scaled:double[n]]"
SERVICE
venv/bin/fishplate check scale.toml || { venv/bin/fishplate help check >&2; exit 1; }
venv/bin/fishplate serve scale.toml --listen 127.0.0.1:0 --data data > told 2> log &
server=$!
until grep -qs '^scale ' told; do
    kill -0 "$server" || { cat log >&2; exit 1; }
    sleep 0.1
done
venv/bin/python - "$(sed -n 's/^scale //p' told)" <<'PYTHON'
import sys

import fishplate
import numpy

given = numpy.arange(5.0)
got = fishplate.Service(sys.argv[1])(of=given).scaled
assert isinstance(got, numpy.ndarray) and (got == given).all(), got
PYTHON
"$here/ring.sh" ring
said=$(venv/bin/fishplate run -n 3 ./ring)
[ "$said" = "the ranks of 3 sum up to 3" ] || { echo "wheel-test.sh: an MPI program said something else: $said" >&2; exit 1; }
echo "wheel-test.sh: command, module and MPI library are installed together, and arrays are NumPy's"
