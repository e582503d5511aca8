#!/bin/sh
# Installs what the pipe demo needs and is not there yet: Debian packages (TetGen, CalculiX, OpenFOAM, the
# libraries that Gmsh's wheel loads) and pinned Python packages in the project's .venv.
# Says nothing when nothing is missing. Runs as root or with sudo; only Debian packages need that.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv="$here/../../.venv"
libraries="libglu1-mesa libgl1 libopengl0 libxrender1 libxcursor1 libxfixes3 libxext6 libxft2
    libfontconfig1 libxinerama1 libx11-6 libgomp1"

say() { echo "examples/pipe/install.sh: $*" >&2; }

install_packages() {
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here; please install TetGen (tetgen), CalculiX (ccx), OpenFOAM (v1912) with"
        say "an mpirun, openssl, Python 3.11 or later"
        say "with venv, and the X11 and OpenGL libraries that Gmsh's wheel loads, and run me again"
        exit 1
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "please run this as root, then run me again: apt-get install $*"
            exit 1
        fi
        as_root="sudo"
    fi
    say "installing Debian packages: $*"
    # Package lists may be absent or old: they are fetched only if the installation fails without.
    try="$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! $try "$@" >"$log" 2>&1; then
        { $as_root apt-get update -qq && $try "$@"; } >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    fi
}

missing_packages() {
    command -v tetgen >/dev/null || echo tetgen
    command -v ccx >/dev/null || echo calculix-ccx
    command -v rhoSimpleFoam >/dev/null || echo openfoam
    command -v mpirun >/dev/null || echo openmpi-bin
    command -v openssl >/dev/null || echo openssl
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        [ -x "$venv/bin/python" ] || echo python3 python3-venv
    command -v dpkg-query >/dev/null || return 0
    for package in $libraries; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            echo "$package"
    done
}

# Exit status 0 if the .venv holds every requirement in its pinned version.
python_packages_present() {
    [ -x "$venv/bin/python" ] || return 1
    "$venv/bin/python" - "$here/requirements.txt" 2>/dev/null <<'PYTHON'
import sys
from importlib.metadata import version

for line in open(sys.argv[1]):
    name, _, pinned = line.split("#")[0].strip().partition("==")
    if name and version(name) != pinned:
        sys.exit(1)
PYTHON
}

missing=$(missing_packages | tr '\n' ' ')
case " $missing " in
    *" openfoam "*) say "OpenFOAM is large: 70 MB to fetch, 420 MB on the disk" ;;
esac
# shellcheck disable=SC2086  # one word a package
[ -z "$missing" ] || install_packages $missing

if ! python_packages_present; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    say "installing into .venv: $(grep -v '^#' "$here/requirements.txt" | tr '\n' ' ')"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
fi
