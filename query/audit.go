package query

import (
	"errors"
	"fmt"

	"cqld/audit"
	"cqld/auth"
	"cqld/cql"
	"cqld/request"
)

// auditStatement records the execution of a statement. pl is nil if the text could not be compiled. The caller has
// checked that the audit log is enabled.
func (p *Processor) auditStatement(r *request.Request, s *Session, pl *plan, text string, err error) {
	if err != nil {
		p.auditFailure(r, s, text, err)
		return
	}
	p.record(r, audit.Classify(pl.keyspace, pl.stmt), pl.text, "")
}

// auditPrepare records the preparation of a statement.
func (p *Processor) auditPrepare(r *request.Request, s *Session, pl *plan, text string, err error) {
	if err != nil {
		p.auditFailure(r, s, text, err)
		return
	}
	p.record(r, audit.Classify(pl.keyspace, pl.stmt).Prepared(), text, "")
}

// auditBatch records a BATCH message: as in Cassandra, one entry for the batch and one for each statement, with an id that
// they share, or one entry for a batch that failed.
func (p *Processor) auditBatch(r *request.Request, s *Session, plans []*plan, params *BatchParams, err error) {
	if err != nil {
		p.auditFailure(r, s, fmt.Sprintf("BATCH of %d statements at consistency %v", len(params.Entries), r.Consistency), err)
		return
	}
	id := p.ids.RandomUUID()
	batch := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	p.record(r, audit.Subject{Type: audit.Batch, Keyspace: keyspaceOf(s, params.Keyspace)},
		fmt.Sprintf("BATCH of %d statements at consistency %v", len(params.Entries), r.Consistency), batch)
	for _, pl := range plans {
		p.record(r, audit.Classify(pl.keyspace, pl.stmt), pl.text, batch)
	}
}

// auditFailure records a statement that failed.
func (p *Processor) auditFailure(r *request.Request, s *Session, text string, err error) {
	e := audit.Entry{Protocol: "cql", Type: audit.RequestFailure, User: r.Principal.String(), Source: r.Client, Keyspace: s.Keyspace}
	var unauthorized *Unauthorized
	var denied *auth.Denied
	if errors.As(err, &unauthorized) || errors.As(err, &denied) {
		e.Type = audit.UnauthorizedAttempt
	}
	if p.o.Audit.Wants(e.Type, e.Keyspace, e.User) {
		e.Operation, e.Error = cql.Redact(text), cql.RedactError(text, err)
		p.o.Audit.Record(&e)
	}
}

// record records a statement that succeeded. Its text was parsed.
func (p *Processor) record(r *request.Request, about audit.Subject, text, batch string) {
	user := r.Principal.String()
	if !p.o.Audit.Wants(about.Type, about.Keyspace, user) {
		return
	}
	p.o.Audit.Record(&audit.Entry{Protocol: "cql", Type: about.Type, User: user, Source: r.Client, Keyspace: about.Keyspace,
		Scope: about.Scope, Operation: cql.RedactStatement(text), Batch: batch})
}
