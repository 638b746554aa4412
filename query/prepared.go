package query

import (
	"cqld/cql"
	"cqld/internal/histogram"
	"cqld/udf"
)

// PreparedStatement is a prepared statement as system.prepared_statements shows it. It is a copy.
type PreparedStatement struct {
	ID       [16]byte
	Keyspace string // empty means none
	Text     string // without secrets
}

// PreparedStatements returns the cached prepared statements, in no particular order. Secrets, such as passwords in
// CREATE ROLE, are removed from the texts.
func (p *Processor) PreparedStatements() []PreparedStatement {
	var out []PreparedStatement
	for _, e := range p.prepared.Entries() {
		pl := e.Plan()
		out = append(out, PreparedStatement{ID: e.Key, Keyspace: pl.keyspace, Text: cql.RedactStatement(pl.text)})
	}
	return out
}

// Stats are the statistics of a Processor since it was created. The counters are read one after the other, so they
// are not a consistent snapshot.
type Stats struct {
	RegularExecuted, PreparedExecuted int64 // executed statements, except those in BATCH messages
	Prepared                          int64 // prepared statements in the cache
	Evicted                           int64 // prepared statements that were removed from the cache
	// Batches counts the partitions changed by each unconditional batch, by cql.BatchKind.
	Batches [cql.BatchCounter + 1]histogram.CountPercentiles
}

// FunctionStats are the statistics of user-defined functions.
type FunctionStats = udf.Stats

// FunctionStats returns the current statistics of user-defined functions.
func (p *Processor) FunctionStats() FunctionStats { return p.runtime.Stats() }

// Stats returns the current statistics.
func (p *Processor) Stats() Stats {
	s := Stats{RegularExecuted: p.regularExecuted.Load(), PreparedExecuted: p.preparedExecuted.Load(),
		Prepared: int64(len(p.prepared.Entries())), Evicted: p.prepared.Evicted()}
	for kind := range cql.BatchKind(len(s.Batches)) {
		s.Batches[kind] = p.writer.Batches(kind)
	}
	return s
}
