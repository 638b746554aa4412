#!/usr/bin/env bash
# Fetches dsbulk, a program that loads and unloads tables, with Maven into .tools/dsbulk/lib.
. "$(dirname "$0")/lib.sh"
pom=$root/integration/drivers/dsbulk/pom.xml
if ! fresh dsbulk "$pom"; then
  need mvn "Maven 3"
  rm -rf "$tools/dsbulk" && mkdir -p "$tools/dsbulk"
  mvn -q -B -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tools/dsbulk/lib"
  installed dsbulk "$pom"
fi
