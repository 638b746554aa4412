#!/usr/bin/env bash
# Fails when `go generate` changes a file, that is when generated code is not what its sources give. Changes that are not
# committed yet do not matter. Without Java and Maven, which ANTLR needs, it checks nothing, except with CI=true; a test of
# package grammar compares the checksums of the sources in any case.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
  echo "generate-check.sh: generated code is not checked: Java or Maven is not installed" >&2
  [ "${CI:-}" != true ] && exit 0
  exit 3
fi
state() { git status --porcelain; git diff | sha256sum; }
before=$(state)
"${GO:-go}" generate ./...
[ "$(state)" = "$before" ] || { echo "go generate changed files: commit them" >&2; git status --short >&2; exit 1; }
