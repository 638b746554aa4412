#!/usr/bin/env bash
# Fetches java-driver-core with Maven into .tools/java/lib and compiles the Java suite against it.
. "$(dirname "$0")/lib.sh"
maven_tool java "$root/integration/drivers/java"
