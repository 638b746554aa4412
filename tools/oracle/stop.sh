#!/usr/bin/env bash
# stop.sh DIR: stops the node that start.sh started with that directory.
set -u
pid=$(cat "$1/pid" 2>/dev/null) || exit 0
rm -f "$1/pid"
# The id may have been given to another program since.
tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null | grep -q CassandraDaemon || exit 0
kill -TERM "$pid" 2>/dev/null || exit 0
for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || exit 0; sleep 0.1; done
kill -KILL "$pid"
