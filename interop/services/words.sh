#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != --parts ]; do printf "%s|" "$1"; shift; done
[ $# -eq 0 ] || { shift; cat "$@"; }
