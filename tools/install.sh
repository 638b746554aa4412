#!/usr/bin/env bash
# Installs the tools the integration tests want into .tools: python, node, java, spark, dsbulk, rust, tables-python,
# tables-node, chromium, azurite; oracle, which is for comparing, when named. Doing it again costs nothing. A missing
# language (exit 3 of its script) stops the install only with CI=true.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- python node java spark dsbulk rust tables-python tables-node chromium azurite
for t in "$@"; do
  code=0
  if [ "$t" = oracle ]; then "$root/tools/oracle/install.sh" || code=$?; else "$root/tools/$t.sh" || code=$?; fi
  if [ $code -eq 3 ] && [ "${CI:-}" != true ]; then echo "install.sh: $t left out"; continue; fi
  [ $code -eq 0 ] || exit $code
done
