#!/usr/bin/env bash
# Installs cqlsh and cassandra-driver from PyPI into .tools/python (a virtual environment), as pinned by requirements.txt.
. "$(dirname "$0")/lib.sh"
pip_tool python "$root/integration/drivers/python/requirements.txt"
