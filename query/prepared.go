package query

// PreparedStatement is a prepared statement as system.prepared_statements shows it.
type PreparedStatement struct {
	ID       [16]byte
	Keyspace string // empty: none
	Text     string
}

// PreparedStatements are all that are known at the moment, in no order.
func (p *Processor) PreparedStatements() []PreparedStatement {
	var out []PreparedStatement
	for _, e := range p.prepared.Entries() {
		pl := e.Plan()
		out = append(out, PreparedStatement{ID: e.Key.ID, Keyspace: pl.keyspace, Text: pl.text})
	}
	return out
}
