package azuretables

import (
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// change parses and applies the single change of a request. Allocated per request: Apply may keep ops after an error
// (kept). The result is valid until the next request of the call. It contains the new Timestamp. e is c's, not a copy.
func (c *call) change() (e *odata.Entity, err error) {
	ops := make([]entity.Operation, 1)
	op := &ops[0]
	// The properties reuse the memory of the previous request of this call.
	op.Entity.Properties = c.entity.Properties[:0]
	parser := changeParser{c.account.name, c.grant, &c.server.limits.Entity}
	err = parser.parse(c.method, &c.path, &c.req.header, c.req.body, op)
	// The memory is kept even after an error, because DecodeEntity may have grown it.
	if op.Entity.Properties != nil {
		c.entity.Properties = op.Entity.Properties
	}
	if err != nil {
		return nil, err
	}
	// The throttle comes after parsing, which yields the partition key.
	if err := c.server.rates.admit(c.account.name, c.path.Table, op.Entity.PartitionKey, 1); err != nil {
		return nil, err
	}
	// A change reads at most its entity.
	c.plan = planName(entity.PointQuery)
	stamps, err := c.server.o.Service.Apply(&c.request, c.account.name, c.path.Table, ops)
	if err != nil {
		// After an error, the outcome may be unknown and the operation still in progress; it keeps the properties and
		// the body.
		c.entity.Properties, c.req.kept = nil, true
		return nil, err
	}
	op.Entity.Timestamp = stamps[0]
	return &op.Entity, nil
}

// insert responds with 201 and the entity, or 204 if the client prefers no content. Its ETag is derived from the
// timestamp that Apply returned.
func (c *call) insert() error {
	e, err := c.change()
	if err != nil {
		return err
	}
	r := c.resp
	// The location shows the table's name as it was created, whatever the case in the request.
	ctx := c.context(c.spelled(c.path.Table))
	// The link is copied, because the next method of links reuses the memory.
	link := string(c.links.entity(ctx.Root, ctx.Table, e.PartitionKey, e.RowKey))
	r.data()
	r.add("ETag", c.links.etag(e.Timestamp))
	if r.created(link, c.prefer, c.level) {
		r.body = ctx.AppendEntity(r.body, e)
	}
	return nil
}

// update replaces or merges an entity; without If-Match the entity need not exist. Its response has no body.
func (c *call) update() error {
	e, err := c.change()
	if err != nil {
		return err
	}
	c.resp.noContent()
	c.resp.add("ETag", c.links.etag(e.Timestamp))
	return nil
}

// remove deletes an entity.
func (c *call) remove() error {
	if _, err := c.change(); err != nil {
		return err
	}
	c.resp.noContent()
	return nil
}

// get responds with one entity. It needs the permission to read; an entity outside the key range of a signature does
// not exist for the client.
func (c *call) get() error {
	if err := c.grant.permits(readEntities(), c.path.Table); err != nil {
		return err
	}
	// The error equals the one for a missing entity: the response must not show which keys outside the range exist.
	if !c.grant.covers(c.path.PartitionKey, c.path.RowKey) {
		return odata.Of(odata.ResourceNotFound)
	}
	selected, err := odata.ParseSelect(c.params.selected, &c.server.limits.Entity)
	if err != nil {
		return err
	}
	if err := c.server.rates.admit(c.account.name, c.path.Table, c.path.PartitionKey, 1); err != nil {
		return err
	}
	c.plan = planName(entity.PointQuery)
	e, err := c.server.o.Service.Get(&c.request, c.account.name, c.path.Table, c.path.PartitionKey, c.path.RowKey,
		selected)
	if err != nil {
		return err
	}
	ctx := c.context(c.spelled(c.path.Table))
	// SelectText is part of the metadata URL in the body.
	ctx.Select, ctx.SelectText = selected, c.params.selected
	r := c.resp
	r.found(c.level)
	r.add("ETag", c.links.etag(e.Timestamp))
	r.body = ctx.AppendEntity(r.body, e)
	return nil
}
