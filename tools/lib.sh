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
