package query

import (
	"context"

	"cqld/cql"
)

// Processor executes statements. Its methods are safe for concurrent use, and block until the
// statement is done.
type Processor struct {
	o Options
}

// New makes a Processor.
func New(o Options) *Processor {
	return &Processor{o: o}
}

// Query parses and executes text.
func (p *Processor) Query(ctx context.Context, s *Session, text string, params *Params) (*Result, error) {
	stmt, err := parse(text)
	if err != nil {
		return nil, err
	}
	return p.execute(ctx, s, stmt, params)
}

// Prepare makes a plan for text and remembers it; the result is of KindPrepared. keyspace overrides
// the session's unless it is empty (v5).
func (p *Processor) Prepare(ctx context.Context, s *Session, text, keyspace string) (*Result, error) {
	return nil, NotSupported("PREPARE")
}

// Execute executes a prepared statement.
func (p *Processor) Execute(ctx context.Context, s *Session, id []byte, params *Params) (*Result, error) {
	return nil, &Unprepared{ID: id}
}

// Batch executes a BATCH message.
func (p *Processor) Batch(ctx context.Context, s *Session, params *BatchParams) (*Result, error) {
	return nil, NotSupported("BATCH")
}

func (p *Processor) execute(ctx context.Context, s *Session, stmt cql.Statement, params *Params) (*Result, error) {
	switch stmt := stmt.(type) {
	case *cql.Use:
		if p.o.View.Schema().Keyspace(stmt.Keyspace) == nil {
			return nil, invalidf("Keyspace '%s' does not exist", stmt.Keyspace)
		}
		return &Result{Kind: KindSetKeyspace, Keyspace: stmt.Keyspace}, nil
	case *cql.Describe:
		return p.describe(ctx, s, stmt, params)
	}
	return p.executeDefinition(ctx, s, stmt)
}
