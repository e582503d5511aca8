#!/bin/sh
# Installs what systems under test need and is not there yet, and builds them in the project's .cache/quake: Debian packages with
# apt, libraries by Maven and pip. Says nothing when nothing is missing. Runs as root or with sudo; only Debian packages need that.
#     install.sh [axis] [cxf] [gsoap] [php] [python]      without a word: all
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/quake
[ $# -gt 0 ] || set -- axis cxf gsoap php python

say() { echo "examples/quake/install.sh: $*" >&2; }

# need COMMAND PACKAGE...: which of the packages are to be installed, because the command is missing.
need() {
    command=$1
    shift
    command -v "$command" >/dev/null || echo "$@"
}

missing_packages() {
    for system; do
        case $system in
            axis | cxf) need javac default-jdk-headless && need mvn maven ;;
            gsoap) need soapcpp2 gsoap libgsoap-dev && need cc gcc libc6-dev ;;
            php) php -m 2>/dev/null | grep -qx soap || echo php-cli php-soap ;;
            python) python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3 python3-venv ;;
            *) say "no system is called $system: axis, cxf, gsoap, php, python are" && exit 2 ;;
        esac
    done
}

install_packages() {
    command -v apt-get >/dev/null || { say "no apt-get here; please install $*, and run me again" && exit 1; }
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
    say "installing Debian packages: $*"
    try="$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
    $try "$@" >/dev/null 2>&1 || { $as_root apt-get update -qq && $try "$@" >/dev/null; }
}

# build NAME SOURCE COMMAND...: runs the command in a directory of that name with a copy of the sources, unless it did so with the same.
build() {
    directory=$cache/$1
    source=$here/$2
    shift 2
    digest=$(cd "$source" && find . -type f | sort | xargs sha256sum | sha256sum)
    [ "$(cat "$directory/complete" 2>/dev/null)" != "$digest" ] || return 0
    say "building ${directory##*/} in .cache/quake; the first time downloads libraries"
    rm -rf "$directory"
    mkdir -p "$directory"
    cp -R "$source/." "$directory"
    (cd "$directory" && "$@" >build.log 2>&1) || { tail -n 30 "$directory/build.log" >&2 && exit 1; }
    echo "$digest" >"$directory/complete"
}

# Compiles pom.xml, and writes what `java @java.arguments CLASS` takes: the class path.
maven() {
    mvn -B -q "$@" compile dependency:build-classpath -Dmdep.outputFile=classpath &&
        printf -- '-cp "%s"\n' "$PWD/target/classes:$(cat classpath)" >java.arguments
}

gsoap() {
    soapcpp2 -c -S -x -w add.h && cc -O2 -I. server.c soapC.c soapServer.c -lgsoap -lpthread -o server
}

python() {
    python3 -m venv venv && venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
}

missing=$(missing_packages "$@" | xargs)
# shellcheck disable=SC2086  # one word a package
[ -z "$missing" ] || install_packages $missing

for system; do
    case $system in
        axis) for version in 1.2.1 1.3 1.4; do build "axis-$version" axis maven "-Daxis.version=$version"; done ;;
        cxf) build cxf cxf maven ;;
        gsoap) build gsoap gsoap gsoap ;;
        python) build python python python ;;
    esac
done
