#!/usr/bin/env bash
# Fetches Spark and its Cassandra connector (180 MB) with Maven into .tools/spark/lib and compiles the Spark suite against them.
. "$(dirname "$0")/lib.sh"
maven_tool spark "$root/integration/drivers/spark"
