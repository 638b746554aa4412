#!/usr/bin/env bash
# Fails when a function of the program is reached by no command and by no entry of tools/deadcode.txt, or when an entry
# of that file names a function that is reached or gone.
set -euo pipefail
cd "$(dirname "$0")/.."
go="${GO:-go}"
found=$("$go" tool -modfile="$PWD/tools/lint/go.mod" deadcode -generated=false ./cmd/... ./tools/mutants |
  sed -E 's/:[0-9]+:[0-9]+: unreachable func//' | grep -v '^grammar/' | sort)
kept=$(grep -v '^#' tools/deadcode.txt | awk '{print $1, $2}' | sort)
unexpected=$(comm -23 <(echo "$found") <(echo "$kept"))
outdated=$(comm -13 <(echo "$found") <(echo "$kept"))
[ -z "$unexpected" ] || { echo "no command reaches these functions; delete them, or move them to tests:" >&2; echo "$unexpected" >&2; }
[ -z "$outdated" ] || { echo "tools/deadcode.txt names functions that are reached or gone:" >&2; echo "$outdated" >&2; }
[ -z "$unexpected$outdated" ]
