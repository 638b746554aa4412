#!/usr/bin/env bash
# Installs Azurite from npm into .tools/azurite: "make bench" compares with its tables, and backups are tested with its
# blobs.
. "$(dirname "$0")/lib.sh"
npm_tool azurite "$root/integration/bench/azurite"
