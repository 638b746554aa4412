package query

// PreparedStatement is a prepared statement as system.prepared_statements shows it.
type PreparedStatement struct {
	ID       [16]byte
	Keyspace string // empty means none
	Text     string
}

// PreparedStatements returns the cached prepared statements, in no particular order.
func (p *Processor) PreparedStatements() []PreparedStatement {
	var out []PreparedStatement
	for _, e := range p.prepared.Entries() {
		pl := e.Plan()
		out = append(out, PreparedStatement{ID: e.Key.ID, Keyspace: pl.keyspace, Text: pl.text})
	}
	return out
}
