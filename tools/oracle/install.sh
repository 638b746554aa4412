#!/usr/bin/env bash
# Fetches Apache Cassandra (org.apache.cassandra:cassandra-all, version in pom.xml, and what it depends on) from Maven Central
# into .tools/oracle/lib. It is the reference that transcripts are recorded from and that benchmarks compare with.
. "$(dirname "$0")/../lib.sh"
here=$root/tools/oracle
fresh oracle "$here/pom.xml" "$0" && exit 0
need mvn "Maven 3"
need java "Java 17"
rm -rf "$tools/oracle/lib" && mkdir -p "$tools/oracle/lib"
mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
  -DincludeScope=runtime -DoutputDirectory="$tools/oracle/lib"
installed oracle "$here/pom.xml" "$0"
