#!/usr/bin/env bash
# Installs cqlsh and cassandra-driver from PyPI into .tools/python (a virtual environment), as pinned by requirements.txt.
. "$(dirname "$0")/lib.sh"
lock=$root/integration/drivers/python/requirements.txt
fresh python "$lock" "$0" && exit 0
need python3 "Python 3.8 to 3.11, with venv"
rm -rf "$tools/python"
python3 -m venv "$tools/python"
"$tools/python/bin/pip" install --quiet --disable-pip-version-check -r "$lock"
installed python "$lock" "$0"
