package query

import (
	"context"

	"cqld/cql"
)

// Changer makes schema changes.
type Changer interface{}

// executeDefinition executes a statement that defines something: keyspaces, tables, types, roles….
// Names in it are as written; s.Keyspace is the keyspace of unqualified ones.
func (p *Processor) executeDefinition(_ context.Context, _ *Session, _ cql.Statement) (*Result, error) {
	return nil, NotSupported("This statement")
}

// describe answers DESCRIBE, by pages.
func (p *Processor) describe(_ context.Context, _ *Session, _ *cql.Describe, _ *Params) (*Result, error) {
	return nil, NotSupported("DESCRIBE")
}
