#!/usr/bin/env bash
# Fetches java-driver-core from Maven Central into .tools/java/lib and compiles the Java suite against it.
. "$(dirname "$0")/lib.sh"
src=$root/integration/drivers/java
if ! fresh java "$src/pom.xml" "$0"; then
  need mvn "Maven 3"
  rm -rf "$tools/java" && mkdir -p "$tools/java"
  mvn -q -B -f "$src/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$tools/java/lib"
  installed java "$src/pom.xml" "$0"
fi
if ! fresh java-classes "$src"/*.java "$src/pom.xml"; then
  need javac "a JDK, 17 or later"
  rm -rf "$tools/java/classes" && mkdir -p "$tools/java/classes"
  javac -nowarn -proc:none -cp "$tools/java/lib/*" -d "$tools/java/classes" "$src"/*.java
  installed java-classes "$src"/*.java "$src/pom.xml"
fi
