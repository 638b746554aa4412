#!/usr/bin/env bash
# Installs cassandra-driver from npm into .tools/node, exactly as integration/drivers/node/package-lock.json says.
. "$(dirname "$0")/lib.sh"
npm_tool node "$root/integration/drivers/node"
