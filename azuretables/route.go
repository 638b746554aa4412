package azuretables

import (
	"errors"

	"cqld/azuretables/odata"
)

// route calls the handler for the resource and method. It runs after authorization, and its error is the response. A
// resource without a handler for the method is 405. Handlers check the grant themselves, since each needs another
// permission.
func (c *call) route() error {
	//exhaustive:enforce
	switch c.path.Resource {
	case odata.ServiceRoot:
		return c.service()
	case odata.TableSet, odata.OneTable:
		return c.tables()
	case odata.EntitySet:
		// comp=acl on a table is about its policies, not its entities.
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
		return c.keyCount()
	case odata.IncompleteEntity:
		return c.keyCount()
	case odata.EntityCount:
		if c.method == "GET" {
			return c.count()
		}
	case odata.BatchEndpoint:
		if c.method == "POST" {
			// A batch is the only request whose responses are inside its body.
			return (&batch{call: c}).run()
		}
	case odata.MetadataDocument:
		// Clients do not need $metadata: entities have no schema.
		return odata.Of(odata.NotImplemented)
	case odata.TablesBelowTable:
		return c.tablesBelowTable()
	case odata.BelowTable:
		if c.method == "POST" { // the service treats it as an insert, and checks the format first
			if err := wantsJSON(c.req.header.contentType); err != nil {
				return err
			}
		}
		// Anything else below a table is the error that the service reports for such a path.
		return odata.ErrPath()
	}
	return odata.Of(odata.MethodNotAllowed)
}

// keyCount returns the error of a path that names an entity by one of its keys. It precedes the checks of permissions,
// so it has the client's spelling of the table.
func (c *call) keyCount() error { return odata.ErrKeyCount(c.account.name, c.path.Table) }

// named replaces the error that a table does not exist by the error that its name is invalid, if it is. Tables created
// by CQL may have names that the service refuses, so the name is checked only after the table was not found. Names by
// which CQL creates tables may contain characters that the service does not allow.
//
// SDKs show users the problem with the name by this code.
func (c *call) named(table string, err error) error {
	var e *odata.Error
	// Without a table in the path, or without a code, err is not about a table.
	if table == "" || !errors.As(err, &e) {
		return err
	}
	aboutTable := c.path.Resource == odata.OneTable || c.params.comp != "" // there, a missing table is ResourceNotFound
	if e.Code == odata.TableNotFound || e.Code == odata.ResourceNotFound && aboutTable {
		// The check comes after the error, so existing tables are never refused for their name.
		if invalid := odata.CheckTableName(table); invalid != nil {
			return invalid
		}
	}
	return err
}

// allowed returns the methods of a resource, for the header Allow. RFC 9110 requires the list in a 405. comp
// distinguishes the documents about an account or a table. OPTIONS is answered elsewhere.
func allowed(r odata.Resource, comp string) string {
	switch {
	// The order is from special resources to general ones.
	case r == odata.BatchEndpoint:
		return "POST"
	case r == odata.EntityCount, r == odata.ServiceRoot && comp == "stats":
		return "GET"
	case r == odata.TableSet:
		return "GET,POST"
	case r == odata.OneTable:
		return "GET,DELETE"
	case r == odata.OneEntity:
		return "GET,PUT,PATCH,MERGE,POST,DELETE" // POST with X-HTTP-Method
	case r == odata.EntitySet && comp != "":
		return "GET,HEAD,PUT"
	case comp != "":
		return "GET,PUT"
	}
	return "GET,POST,DELETE"
}

// context returns the context of entities in the response body: its URLs and level of metadata. table is the name as
// created; empty for lists of tables. It is valid until the request ends. Its copy in a handler is independent.
func (c *call) context(table string) odata.Context {
	return odata.Context{Root: c.links.root(), Account: c.account.name, Table: table, Level: c.level}
}

// spelled returns the table's name as it was created. Names have no case, and the service shows the spelling at
// creation. A table that does not exist keeps the client's.
func (c *call) spelled(table string) string {
	if name, ok := c.server.o.Service.Exists(c.account.name, table); ok {
		return name
	}
	return table
}
