package query

import (
	"cmp"
	"errors"

	"cqld/audit"
	"cqld/auth"
	"cqld/query/invalid"
	"cqld/request"
)

// audit records a statement in the audit log after its execution. pl is nil if the statement text was not compiled.
// text is empty for a prepared statement. convert maps the category of the statement to the one of its execution or
// preparation. Package audit redacts passwords in the text.
func (p *Processor) audit(r *request.Request, s *Session, pl *plan, text string,
	convert func(audit.Subject) audit.Subject, err error) {
	if !p.o.Audit.Enabled() {
		return
	}
	client := audit.Client{User: r.Principal.String(), Source: r.Client}
	if err == nil {
		p.o.Audit.Executed(client, convert(audit.Classify(pl.keyspace, pl.stmt)), pl.text, "")
		return
	}
	// An EXECUTE message contains no text, so the entry of a failed execution uses the text of the plan.
	if text == "" && pl != nil {
		text = pl.text
	}
	// The audit log has a separate category for permissions that were refused.
	p.o.Audit.Failed(client, s.Keyspace, text, err, errors.As(err, new(*invalid.Unauthorized)) ||
		errors.As(err, new(*auth.Denied)))
}

// auditBatch records a BATCH message: the batch and each of its statements have one id in common.
func (p *Processor) auditBatch(r *request.Request, s *Session, plans []*plan, params *BatchParams, err error) {
	if p.o.Audit.Enabled() {
		b := p.o.Audit.Batch(audit.Client{User: r.Principal.String(), Source: r.Client}, len(params.Entries),
			r.Consistency)
		// A failed batch is one entry, without its statements.
		if err != nil {
			p.audit(r, s, nil, b.Text, nil, err)
		} else {
			b.Executed(cmp.Or(params.Keyspace, s.Keyspace), p.services.IDs.RandomUUID(), len(plans),
				func(i int) (audit.Subject, string) {
					return audit.Classify(plans[i].keyspace, plans[i].stmt), plans[i].text
				})
		}
	}
}
