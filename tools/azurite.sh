#!/usr/bin/env bash
# Installs Azurite from npm into .tools/azurite: "make bench" compares with it, and nothing is tested against it.
. "$(dirname "$0")/lib.sh"
npm_tool azurite "$root/integration/bench/azurite"
