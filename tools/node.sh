#!/usr/bin/env bash
# Installs cassandra-driver from npm into .tools/node, exactly as integration/drivers/node/package-lock.json says.
. "$(dirname "$0")/lib.sh"
src=$root/integration/drivers/node
fresh node "$src/package.json" "$src/package-lock.json" "$0" && exit 0
need npm "Node.js 18 or later"
rm -rf "$tools/node" && mkdir -p "$tools/node"
cp "$src/package.json" "$src/package-lock.json" "$tools/node/"
npm ci --prefix "$tools/node" --no-audit --no-fund --loglevel=error
installed node "$src/package.json" "$src/package-lock.json" "$0"
