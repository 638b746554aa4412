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
	var plans []*plan // for the audit log
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
			// The words differ from the words for QUERY and EXECUTE, as in Cassandra.
			if len(e.Values) != len(pl.markers) {
				return nil, invalid.Errorf("There were %d markers(?) in CQL but %d bound variables", len(pl.markers),
					len(e.Values))
			}
			// A batch within a batch, or a SELECT: as in Cassandra, after errors of all statements.
			if pl.modification == nil {
				refused = invalid.Errorf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements " +
					"are allowed.")
				continue
			}
			// Each statement has requirements of its own.
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
		// The keyspace must exist even if no statement refers to it, because all are prepared or there are none.
		if _, err := p.keyspaceOf(s, params.Keyspace); err != nil {
			return nil, err
		}
		return p.writeResult(p.writer.ExecuteStatements(r, params.Kind, statements, &params.Params))
	})
}

// batchEntry returns the plan of an entry: of its prepared statement, or of its text in the keyspace of the message or
// of the session.
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
