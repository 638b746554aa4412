#!/usr/bin/env bash
# Installs @azure/data-tables from npm into .tools/tables-node, exactly as its package-lock.json says.
. "$(dirname "$0")/lib.sh"
npm_tool tables-node "$root/integration/drivers/tables-node"
