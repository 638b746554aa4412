package azuretables

import (
	"strings"

	"cqld/auth"
	"cqld/azuretables/odata"
)

// tables handles requests about an account's tables.
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

func (c *call) getTable() error {
	if err := c.grant.permits(listTables(), ""); err != nil {
		return err
	}
	name, ok := c.server.o.Service.Exists(c.account.name, c.path.Table)
	if !ok {
		return odata.Of(odata.ResourceNotFound)
	}
	if err := c.authorized(auth.Select, c.path.Table); err != nil {
		return err
	}
	ctx := c.context("")
	c.resp.found(c.level)
	c.resp.body = ctx.AppendTable(c.resp.body, name)
	return nil
}

func (c *call) listTables() error {
	p := &c.params
	if err := c.grant.permits(listTables(), ""); err != nil {
		return err
	}
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
	} else {
		err = c.authorized(auth.Select, "")
	}
	if err != nil {
		return err
	}
	ctx := c.context("")
	r := c.resp
	r.found(c.level)
	if next != "" {
		r.add("x-ms-continuation-NextTableName", continuation(next))
	}
	r.body = ctx.AppendTables(r.body, names)
	return nil
}

// tableFilter returns the filter on names, in which TableName is the only property; nil means all tables.
func (p *params) tableFilter(limits *odata.Limits) (func(string) bool, error) {
	if strings.TrimSpace(p.filter) == "" {
		return nil, nil
	}
	filter, err := odata.ParseFilter(p.filter, limits)
	if err != nil {
		return nil, err
	}
	e := &odata.Entity{Properties: []odata.Property{{Name: "TableName", Value: odata.Value{Type: odata.String}}}}
	return func(name string) bool {
		e.Properties[0].Value.Bytes = []byte(name)
		return odata.Matches(filter, e)
	}, nil
}

func (c *call) createTable() error {
	if err := c.grant.permitsChange(createTable(), ""); err != nil {
		return err
	}
	if err := wantsJSON(c.req.header.contentType); err != nil {
		return err
	}
	var body odata.Entity
	if _, err := odata.DecodeEntity(c.req.body, &c.server.limits.Entity, &body); err != nil {
		return err
	}
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
	if c.resp.created(ctx.Root+"/Tables('"+name+"')", c.prefer, c.level) {
		c.resp.body = ctx.AppendTable(c.resp.body, name)
	}
	return nil
}

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
// recognize these errors and tell their users to pass the endpoint of the account.
func (c *call) tablesBelowTable() error {
	table := c.path.Table
	switch c.method {
	case "GET":
		if err := c.grant.permits(readEntities(), table); err != nil {
			return err
		}
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
		return odata.ErrKeyCount(c.account.name + "." + c.spelled(table))
	}
	return odata.Of(odata.MethodNotAllowed)
}
