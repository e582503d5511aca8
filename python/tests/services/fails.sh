#!/bin/sh
case $1 in
    exit) echo "it failed as told" >&2; exit 3 ;;
    signal) kill -SEGV $$ ;;
    nothing) : ;;
    large) head -c 3000000 /dev/zero >written ;;
esac
