package query

import "cqld/cql"

// parse turns text into a statement.
func parse(_ string) (cql.Statement, error) { return nil, NotSupported("Text") }
