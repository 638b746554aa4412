package azuretables

import (
	"strings"

	"cqld/auth"
	"cqld/azuretables/odata"
)

// tables handles requests about an account's tables. /Tables is the set of the account's tables, and /Tables('name')
// is one of them.
func (c *call) tables() error {
	one := c.path.Resource == odata.OneTable
	switch {
	case c.method == "GET" && one:
		return c.getTable()
	case c.method == "GET":
		return c.listTables()
	case c.method == "POST" && !one:
		return c.createTable()
	case c.method == "DELETE" && one:
		return c.deleteTable()
	}
	return odata.Of(odata.MethodNotAllowed)
}

// getTable responds with one table. The permission to list tables suffices.
func (c *call) getTable() error {
	if err := c.grant.permits(listTables(), ""); err != nil {
		return err
	}
	// Before authorization by the role: a missing table has no permissions.
	name, ok := c.server.o.Service.Exists(c.account.name, c.path.Table)
	if !ok {
		return odata.Of(odata.ResourceNotFound)
	}
	if err := c.authorized(auth.Select, c.path.Table); err != nil {
		return err
	}
	// The context needs no table: the metadata refers to the set of tables.
	ctx := c.context("")
	c.resp.found(c.level)
	c.resp.body = ctx.AppendTable(c.resp.body, name)
	return nil
}

// listTables responds with a page of tables in the order of their names, at most $top. The page may be shorter than
// $top, because a filter is applied after reading.
func (c *call) listTables() error {
	p := &c.params
	if err := c.grant.permits(listTables(), ""); err != nil {
		return err
	}
	// Tables have no order of their own to choose.
	if p.unsupported || p.orderBy != "" {
		return odata.Of(odata.NotImplemented)
	}
	match, err := p.tableFilter(&c.server.limits.Entity)
	if err != nil {
		return err
	}
	top, err := p.pageSize(c.server.limits.PageEntities)
	if err != nil {
		return err
	}
	// The continuation is a name; the page begins with it.
	from := ""
	if p.nextTable != "" {
		if from, err = parseContinuation(p.nextTable); err != nil {
			return err
		}
	}
	var names []string
	next := ""
	if top > 0 {
		names, next, err = c.server.o.Service.Tables(&c.request, c.account.name, from, match, top)
		// The page is empty, so only existence of the permission is checked.
	} else {
		err = c.authorized(auth.Select, "")
	}
	if err != nil {
		return err
	}
	ctx := c.context("")
	r := c.resp
	r.found(c.level)
	// Another table follows, which need not match the filter.
	if next != "" {
		r.add("x-ms-continuation-NextTableName", continuation(next))
	}
	r.body = ctx.AppendTables(r.body, names)
	return nil
}

// tableFilter returns the filter on names, in which TableName is the only property; nil means all tables. The filter
// is evaluated by odata.Matches against an entity with that one property.
func (p *params) tableFilter(limits *odata.Limits) (func(string) bool, error) {
	if strings.TrimSpace(p.filter) == "" {
		return nil, nil
	}
	filter, err := odata.ParseFilter(p.filter, limits)
	if err != nil {
		return nil, err
	}
	// One entity is reused for all names: the function is not safe for concurrent use.
	e := &odata.Entity{Properties: []odata.Property{{Name: "TableName", Value: odata.Value{Type: odata.String}}}}
	return func(name string) bool {
		e.Properties[0].Value.Bytes = []byte(name)
		return odata.Matches(filter, e)
	}, nil
}

// createTable creates the table that the body names. The name must be valid and unused; Service checks both. The name's
// case is kept.
func (c *call) createTable() error {
	if err := c.grant.permitsChange(createTable(), ""); err != nil {
		return err
	}
	if err := wantsJSON(c.req.header.contentType); err != nil {
		// The content type is checked before the body is parsed.
		return err
	}
	var body odata.Entity
	if _, err := odata.DecodeEntity(c.req.body, &c.server.limits.Entity, &body); err != nil {
		return err
	}
	// Other properties of the body are ignored.
	p := body.Property("TableName")
	if p == nil || p.Value.Type != odata.String {
		return odata.Of(odata.PropertiesNeedValue)
	}
	name := string(p.Value.Bytes)
	if err := c.server.o.Service.CreateTable(&c.request, c.account.name, name); err != nil {
		return err
	}
	ctx := c.context("")
	c.resp.data()
	// The location contains the name without escaping, because a valid name needs none.
	if c.resp.created(ctx.Root+"/Tables('"+name+"')", c.prefer, c.level) {
		c.resp.body = ctx.AppendTable(c.resp.body, name)
	}
	return nil
}

// deleteTable deletes a table with its entities.
func (c *call) deleteTable() error {
	if err := c.grant.permitsChange(deleteTable(), ""); err != nil {
		return err
	}
	if err := c.server.o.Service.DeleteTable(&c.request, c.account.name, c.path.Table); err != nil {
		return err
	}
	c.resp.noContent()
	return nil
}

// tablesBelowTable responds to requests about /t/Tables, which clients send whose endpoint ends in the name of a table.
// The service treats POST as the insert of an entity into t, and a name in parentheses as an entity with one key. SDKs
// recognize these errors and advise their users to pass the endpoint of the account.
func (c *call) tablesBelowTable() error {
	table := c.path.Table
	switch c.method {
	case "GET":
		if err := c.grant.permits(readEntities(), table); err != nil {
			return err
		}
		// Whether the table exists does not matter: the path is wrong in any case.
		return odata.ErrPath()
	case "POST":
		if err := c.grant.permitsChange(addEntity(), table); err != nil {
			return err
		}
		if err := wantsJSON(c.req.header.contentType); err != nil {
			return err
		}
		if _, ok := c.server.o.Service.Exists(c.account.name, table); !ok {
			return odata.Of(odata.TableNotFound)
		}
		// Checked like an insert, so the errors come in the order in which the service reports them.
		keys, err := odata.DecodeEntity(c.req.body, &c.server.limits.Entity, &c.entity)
		if err == nil {
			err = keys.Need()
		}
		if err != nil {
			return err
		}
		return odata.ErrPath()
	case "DELETE":
		if err := c.grant.permitsChange(deleteEntity(), table); err != nil {
			return err
		}
		return odata.ErrKeyCount(c.account.name, c.spelled(table))
	}
	return odata.Of(odata.MethodNotAllowed)
}
