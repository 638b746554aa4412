package azuretables

import (
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// change parses and applies the single change of a request.
func (c *call) change() (e *odata.Entity, err error) {
	ops := make([]entity.Operation, 1)
	op := &ops[0]
	op.Entity.Properties = c.entity.Properties[:0]
	parser := changeParser{c.grant, &c.server.limits.Entity}
	err = parser.parse(c.method, &c.path, &c.req.header, c.req.body, op)
	if op.Entity.Properties != nil {
		c.entity.Properties = op.Entity.Properties
	}
	if err != nil {
		return nil, err
	}
	if err := c.server.rates.admit(c.account.name, c.path.Table, op.Entity.PartitionKey, 1); err != nil {
		return nil, err
	}
	c.plan = planName(entity.PointQuery)
	stamps, err := c.server.o.Service.Apply(&c.request, c.account.name, c.path.Table, ops)
	if err != nil {
		c.entity.Properties, c.req.kept = nil, true
		return nil, err
	}
	op.Entity.Timestamp = stamps[0]
	return &op.Entity, nil
}

func (c *call) insert() error {
	e, err := c.change()
	if err != nil {
		return err
	}
	r := c.resp
	ctx := c.context(c.spelled(c.path.Table))
	link := string(c.links.entity(ctx.Root, ctx.Table, e.PartitionKey, e.RowKey))
	r.data()
	r.add("ETag", c.links.etag(e.Timestamp))
	if r.created(link, c.prefer, c.level) {
		r.body = ctx.AppendEntity(r.body, e)
	}
	return nil
}

// update replaces or merges an entity; without If-Match the entity need not exist.
func (c *call) update() error {
	e, err := c.change()
	if err != nil {
		return err
	}
	c.resp.noContent()
	c.resp.add("ETag", c.links.etag(e.Timestamp))
	return nil
}

func (c *call) remove() error {
	if _, err := c.change(); err != nil {
		return err
	}
	c.resp.noContent()
	return nil
}

// get responds with one entity.
func (c *call) get() error {
	if err := c.grant.permits(readEntities(), c.path.Table); err != nil {
		return err
	}
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
	ctx.Select, ctx.SelectText = selected, c.params.selected
	r := c.resp
	r.found(c.level)
	r.add("ETag", c.links.etag(e.Timestamp))
	r.body = ctx.AppendEntity(r.body, e)
	return nil
}
