"""The Table service seen without an SDK: see ../README.md."""

import sys

import checks
import raw_auth
import raw_batches
import raw_entities
import raw_queries
import raw_tables

if __name__ == "__main__":
    groups = [g for m in (raw_tables, raw_entities, raw_queries, raw_batches, raw_auth) for g in m.GROUPS]
    sys.exit(checks.run([g for g in groups if not sys.argv[1:] or g.__name__ in sys.argv[1:]]))
