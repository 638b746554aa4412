# Shared by the install scripts of this directory: where tools live, and how a finished install is recognised.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=${CQLD_TOOLS:-$root/.tools}
mkdir -p "$tools"

# need COMMAND HINT: stop with a clear message when a program of the machine is missing.
need() {
  command -v "$1" >/dev/null 2>&1 || { echo "$(basename "$0"): $1 is not installed ($2)" >&2; exit 3; }
}

# fresh NAME FILE...: true when NAME was installed from exactly these input files.
fresh() {
  local name=$1; shift
  [ -f "$tools/$name.stamp" ] && [ "$(cat "$@" | sha256sum)" = "$(cat "$tools/$name.stamp")" ]
}

# installed NAME FILE...: remember that NAME was installed from these input files.
installed() {
  local name=$1; shift
  cat "$@" | sha256sum > "$tools/$name.stamp"
}

# pip_tool NAME LOCK: a virtual environment .tools/NAME with what the requirements file LOCK pins.
pip_tool() {
  fresh "$1" "$2" && return
  need python3 "Python 3.8 to 3.11, with venv"
  rm -rf "${tools:?}/$1"
  python3 -m venv "$tools/$1"
  "$tools/$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
  installed "$1" "$2"
}

# npm_tool NAME DIR: .tools/NAME/node_modules, exactly as DIR/package-lock.json says.
npm_tool() {
  fresh "$1" "$2/package.json" "$2/package-lock.json" && return
  need npm "Node.js 20 or later"
  rm -rf "${tools:?}/$1" && mkdir -p "$tools/$1"
  cp "$2/package.json" "$2/package-lock.json" "$tools/$1/"
  npm ci --prefix "$tools/$1" --no-audit --no-fund --loglevel=error
  installed "$1" "$2/package.json" "$2/package-lock.json"
}

# maven_tool NAME DIR: .tools/NAME/lib with the dependencies of DIR/pom.xml, .tools/NAME/classes with DIR/*.java compiled against them.
maven_tool() {
  local name=$1 src=$2
  if ! fresh "$name" "$src/pom.xml" "$root/tools/lib.sh"; then
    need mvn "Maven 3"
    rm -rf "${tools:?}/$name" "$tools/$name-classes.stamp" && mkdir -p "$tools/$name"
    mvn -q -B -f "$src/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$tools/$name/lib"
    installed "$name" "$src/pom.xml" "$root/tools/lib.sh"
  fi
  if ! fresh "$name-classes" "$src"/*.java "$src/pom.xml"; then
    need javac "a JDK, 17 or later"
    rm -rf "$tools/$name/classes" && mkdir -p "$tools/$name/classes"
    javac -nowarn -proc:none -cp "$tools/$name/lib/*" -d "$tools/$name/classes" "$src"/*.java
    installed "$name-classes" "$src"/*.java "$src/pom.xml"
  fi
}
