package azuretables

import (
	"strconv"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/schema"
)

// parseTTL parses the header x-cqld-ttl.
func parseTTL(s string) (int32, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 || n > schema.TTLMax {
		return 0, odata.Of(odata.InvalidHeaderValue)
	}
	return int32(n), nil
}

// operation parses the change that a request describes by its method, path, headers and body into op, and checks that
// the grant allows it and covers its keys. It reuses op's properties.
func (c *call) operation(method string, path *odata.Path, h *header, body []byte, op *entity.Operation) error {
	var err error
	table := path.Table
	switch method {
	case "POST":
		if path.Resource != odata.EntitySet {
			return odata.Of(odata.MethodNotAllowed)
		}
		op.Kind = entity.Insert
		err = c.mayChange(addEntity(), table)
	case "DELETE":
		op.Kind = entity.Delete
		err = c.mayChange(deleteEntity(), table)
	case "PUT", "PATCH", "MERGE":
		var wanted action
		op.Kind, wanted = updateKind(method, h.ifMatch != "")
		err = c.mayChange(wanted, table)
	default:
		return odata.Of(odata.MethodNotAllowed)
	}
	switch {
	case err != nil:
		return err
	case method != "POST" && path.Resource != odata.OneEntity:
		return odata.Of(odata.MethodNotAllowed)
	case method == "DELETE":
		err = c.deletion(path, h, op)
	default:
		err = c.content(method, path, h, body, op)
	}
	if err != nil {
		return err
	}
	if !c.grant.covers(op.Entity.PartitionKey, op.Entity.RowKey) {
		return odata.Of(odata.AuthorizationFailure)
	}
	if op.TTL, err = parseTTL(h.ttl); err != nil {
		return err
	}
	if method == "POST" {
		return nil // an insert has no entity to match
	}
	return condition(h.ifMatch, op)
}

// updateKind returns the operation of PUT, PATCH and MERGE: without If-Match the entity need not exist.
func updateKind(method string, match bool) (entity.Kind, action) {
	switch {
	case method == "PUT" && match:
		return entity.Update, updateEntity()
	case method == "PUT":
		return entity.InsertOrReplace, upsertEntity()
	case match:
		return entity.Merge, updateEntity()
	}
	return entity.InsertOrMerge, upsertEntity()
}

func (c *call) deletion(path *odata.Path, h *header, op *entity.Operation) error {
	if h.ifMatch == "" {
		return odata.Of(odata.MissingRequiredHeader)
	}
	op.Entity = odata.Entity{PartitionKey: path.PartitionKey, RowKey: path.RowKey}
	return nil
}

// content parses the entity in a body. Except with POST, the keys come from the URL, and keys in the body must equal
// them.
func (c *call) content(method string, path *odata.Path, h *header, body []byte, op *entity.Operation) error {
	if err := wantsJSON(h.contentType); err != nil {
		return err
	}
	limits := &c.server.limits.Entity
	e := &op.Entity
	keys, err := odata.DecodeEntity(body, limits, e)
	if err != nil {
		return err
	}
	if method == "POST" {
		return keys.Need()
	}
	if keys&odata.HasPartitionKey != 0 && e.PartitionKey != path.PartitionKey ||
		keys&odata.HasRowKey != 0 && e.RowKey != path.RowKey {
		return odata.Of(odata.InvalidInput)
	}
	e.PartitionKey, e.RowKey = path.PartitionKey, path.RowKey
	if err := limits.CheckKey(e.PartitionKey); err != nil {
		return err
	}
	return limits.CheckKey(e.RowKey)
}

// change parses and applies the single change of a request.
func (c *call) change() (e *odata.Entity, err error) {
	ops := make([]entity.Operation, 1)
	op := &ops[0]
	op.Entity.Properties = c.entity.Properties[:0]
	err = c.operation(c.method, &c.path, &c.req.header, c.req.body, op)
	if op.Entity.Properties != nil {
		c.entity.Properties = op.Entity.Properties
	}
	if err != nil {
		return nil, err
	}
	if err := c.admit(c.path.Table, op.Entity.PartitionKey, 1); err != nil {
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
	link := string(c.link(ctx.Root, ctx.Table, e.PartitionKey, e.RowKey))
	r.data()
	r.add("ETag", c.etag(e.Timestamp))
	if c.created(link) {
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
	c.resp.status = 204
	c.resp.data()
	c.resp.add("ETag", c.etag(e.Timestamp))
	return nil
}

func (c *call) remove() error {
	if _, err := c.change(); err != nil {
		return err
	}
	c.resp.status = 204
	c.resp.data()
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
	if err := c.admit(c.path.Table, c.path.PartitionKey, 1); err != nil {
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
	r.status, r.contentType = 200, c.level.ContentType()
	r.data()
	r.add("ETag", c.etag(e.Timestamp))
	r.body = ctx.AppendEntity(r.body, e)
	return nil
}
