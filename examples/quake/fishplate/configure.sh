#!/bin/sh
# A certificate for this machine, and a token: configure.sh DIRECTORY
set -eu
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=quake" \
    -addext "subjectAltName=IP:127.0.0.1" -addext "basicConstraints=critical,CA:FALSE" \
    -keyout key.pem -out certificate.pem 2>/dev/null
fishplate token create --user quake --expires 7d --data data >token
