#!/bin/sh
printf "%s|%s|%s" "$1" "$2" "$3"
