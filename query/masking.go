package query

import (
	"errors"

	"cqld/auth"
	"cqld/query/mask"
	"cqld/request"
	"cqld/schema"
)

// masking compiles the masks of the statement's table, some of whose columns the statement restricts.
func (c *compiler) masking(restricted []*schema.Column) *mask.Decision {
	return mask.NewDecision(mask.Compile(&c.Compiler, c.Table), c.Table, restricted)
}

// masksFor returns the masks to be applied to the rows of a request: none if its principal may see all values, and none while
// masking is off. The restriction of masked columns is then still refused, as in Cassandra.
func (p *Processor) masksFor(r *request.Request, d *mask.Decision) (*mask.Table, error) {
	if d == nil {
		return nil, nil
	}
	masks, err := d.Masks(r.Principal, func(need auth.Requirement) error { return p.o.Executor.Authorize(r, need) })
	var denied *mask.Denied
	switch {
	case errors.As(err, &denied):
		return nil, &Unauthorized{Msg: denied.Error()}
	case err != nil:
		return nil, err
	case !p.o.DynamicDataMasking:
		return nil, nil
	}
	return masks, nil
}
