package azuretables

import (
	"errors"

	"cqld/azuretables/odata"
)

// route calls the handler for the resource and method.
func (c *call) route() error {
	//exhaustive:enforce
	switch c.path.Resource {
	case odata.ServiceRoot:
		return c.service()
	case odata.TableSet, odata.OneTable:
		return c.tables()
	case odata.EntitySet:
		if c.params.comp != "" {
			return c.policies()
		}
		switch c.method {
		case "GET":
			return c.query()
		case "POST":
			return c.insert()
		case "DELETE":
			return c.deleteMatching()
		}
	case odata.OneEntity:
		switch c.method {
		case "GET":
			return c.get()
		case "PUT", "PATCH", "MERGE":
			return c.update()
		case "DELETE":
			return c.remove()
		}
	case odata.Partition:
		if c.method == "DELETE" {
			return c.deletePartition()
		}
	case odata.EntityCount:
		if c.method == "GET" {
			return c.count()
		}
	case odata.BatchEndpoint:
		if c.method == "POST" {
			return (&batch{call: c}).run()
		}
	case odata.MetadataDocument:
		return odata.Of(odata.NotImplemented)
	case odata.TablesBelowTable:
		return c.tablesBelowTable()
	case odata.BelowTable:
		if c.method == "POST" { // the service treats it as an insert, and checks the format first
			if err := wantsJSON(c.req.header.contentType); err != nil {
				return err
			}
		}
		return odata.ErrPath()
	}
	return odata.Of(odata.MethodNotAllowed)
}

// named replaces the error that a table does not exist by the error that its name is invalid, if it is. Tables created
// by CQL may have names that the service refuses, so the name is checked only after the table was not found.
func (c *call) named(table string, err error) error {
	var e *odata.Error
	if table == "" || !errors.As(err, &e) {
		return err
	}
	aboutTable := c.path.Resource == odata.OneTable || c.params.comp != "" // there, a missing table is ResourceNotFound
	if e.Code == odata.TableNotFound || e.Code == odata.ResourceNotFound && aboutTable {
		if invalid := odata.CheckTableName(table); invalid != nil {
			return invalid
		}
	}
	return err
}

// allowed returns the methods of a resource, for the header Allow.
func allowed(r odata.Resource, comp string) string {
	switch {
	case r == odata.BatchEndpoint:
		return "POST"
	case r == odata.Partition:
		return "DELETE"
	case r == odata.EntityCount, r == odata.ServiceRoot && comp == "stats":
		return "GET"
	case r == odata.TableSet:
		return "GET,POST"
	case r == odata.OneTable:
		return "GET,DELETE"
	case r == odata.OneEntity:
		return "GET,PUT,PATCH,MERGE,POST,DELETE" // POST with X-HTTP-Method
	case comp != "":
		return "GET,PUT"
	}
	return "GET,POST,DELETE"
}

// context returns the context of entities in the response body: its URLs and level of metadata.
func (c *call) context(table string) odata.Context {
	return odata.Context{Root: c.links.root(), Account: c.account.name, Table: table, Level: c.level}
}

// spelled returns the table's name as it was created.
func (c *call) spelled(table string) string {
	if name, ok := c.server.o.Service.Exists(c.account.name, table); ok {
		return name
	}
	return table
}
