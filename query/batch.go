package query

import (
	"cqld/query/invalid"
	"cqld/query/write"
	"cqld/request"
)

// Batch executes a BATCH message. All statements are compiled and authorized before the first is executed. Statements
// of one batch may name tables of several keyspaces.
func (p *Processor) Batch(r *request.Request, s *Session, params *BatchParams) (_ *Result, err error) {
	// Filled only if the log is enabled.
	var plans []*plan // in the order of the statements, for the audit log
	defer func() { p.auditBatch(r, s, plans, params, err) }()
	return p.traced(r, &params.Params, "Execute batch of CQL3 queries", "", nil, func() (*Result, error) {
		statements := make([]write.Statement, 0, len(params.Entries))
		var refused error
		for i := range params.Entries {
			e := &params.Entries[i]
			pl, err := p.batchEntry(r, s, params.Keyspace, e)
			if err != nil {
				return nil, err
			}
			// As in Cassandra, this message differs from the message for QUERY and EXECUTE.
			if len(e.Values) != len(pl.markers) {
				return nil, invalid.Errorf("There were %d markers(?) in CQL but %d bound variables", len(pl.markers),
					len(e.Values))
			}
			// The entry is a batch or a SELECT. As in Cassandra, errors in any statement precede this one.
			if pl.modification == nil {
				refused = invalid.Errorf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements " +
					"are allowed.")
				continue
			}
			// Each statement is authorized separately, because statements may write different tables.
			if err := p.authorize(r, pl); err != nil {
				return nil, err
			}
			statements = append(statements, write.Statement{Modification: pl.modification, Values: e.Values})
			if p.o.Audit.Enabled() {
				plans = append(plans, pl)
			}
		}
		if refused != nil {
			return nil, refused
		}
		// The keyspace must exist even if no statement refers to it: the batch may be empty, or contain prepared
		// statements only.
		if _, err := p.keyspaceOf(s, params.Keyspace); err != nil {
			return nil, err
		}
		return p.writeResult(p.writer.ExecuteStatements(r, params.Kind, statements, &params.Params))
	})
}

// batchEntry returns the plan of an entry. If the entry has an id, the plan is that prepared statement. Otherwise
// batchEntry compiles the text; unqualified names refer to the keyspace of the message or, if it has none, of the
// session.
func (p *Processor) batchEntry(r *request.Request, s *Session, keyspace string, e *BatchEntry) (*plan, error) {
	if e.ID != nil {
		_, pl, err := p.preparedPlan(e.ID)
		return pl, err
	}
	// Prepared statements keep the keyspace with which they were prepared.
	keyspace, err := p.keyspaceOf(s, keyspace)
	if err != nil {
		return nil, err
	}
	return p.textPlan(r, keyspace, e.Text)
}
