#!/usr/bin/env bash
# Installs azure-data-tables from PyPI into .tools/tables-python, as pinned by requirements.txt.
. "$(dirname "$0")/lib.sh"
pip_tool tables-python "$root/integration/drivers/tables-python/requirements.txt"
