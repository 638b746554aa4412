package azuretables

import (
	"errors"
	"strings"
	"time"

	"cqld/azuretables/entity"
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
			return c.batch()
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
	return odata.Context{Root: c.root(), Account: c.account.name, Table: table, Level: c.level}
}

// root returns the URL of the service as the client addressed it, without a trailing slash.
func (c *call) root() string {
	b := append(c.scratch[:0], "http"...)
	if c.req.tls {
		b = append(b, 's')
	}
	b = append(append(b, "://"...), c.req.host...)
	if !c.hostForm {
		b = append(append(b, '/'), c.path.Account...)
	}
	c.scratch = b
	return string(b)
}

// link returns the URL of an entity; it is valid until scratch is reused.
func (c *call) link(root, table, partitionKey, rowKey string) []byte {
	b := append(append(c.scratch[:0], root...), '/')
	c.scratch = odata.AppendLink(b, table, partitionKey, rowKey)
	return c.scratch
}

func (c *call) etag(ticks int64) string {
	c.scratch = odata.AppendETag(c.scratch[:0], ticks)
	return string(c.scratch)
}

// spelled returns the table's name as it was created.
func (c *call) spelled(table string) string {
	if name, ok := c.server.o.Service.Exists(c.account.name, table); ok {
		return name
	}
	return table
}

// created responds that a resource was created at a URL; content reports whether the client wants it in the body.
func (c *call) created(location string) (content bool) {
	r := c.resp
	r.add("Location", location)
	if c.prefer != "" {
		r.add("Preference-Applied", c.prefer)
	}
	if c.prefer == "return-no-content" {
		r.status = 204
		r.add("DataServiceId", location)
		return false
	}
	r.status, r.contentType = 201, c.level.ContentType()
	return true
}

// wantsJSON returns nil if a body's content type is JSON, the only supported format.
func wantsJSON(contentType string) error {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.TrimSpace(mediaType); {
	case strings.EqualFold(mediaType, "application/json"):
		return nil
	case strings.EqualFold(mediaType, "application/atom+xml"):
		return odata.Of(odata.AtomFormatNotSupported)
	}
	return odata.Of(odata.MediaTypeNotSupported)
}

// admit asks the throttles for n entities of a partition; if table is empty, it asks only the account's throttle.
func (c *call) admit(table, partitionKey string, n int) error {
	wait, ok := c.server.byAccount.admit(c.account.name, n)
	if ok && table != "" && c.server.partitions != nil {
		if wait, ok = c.server.partitions.admit(c.partition(table, partitionKey), n); !ok {
			c.server.byAccount.release(c.account.name, n) // a refused request does not count against the account
		}
	}
	if ok {
		return nil
	}
	return &busy{seconds: int((wait + time.Second - 1) / time.Second)}
}

// charge counts n more entities that a response contains.
func (c *call) charge(table, partitionKey string, n int) {
	c.server.byAccount.charge(c.account.name, n)
	if table != "" && c.server.partitions != nil {
		c.server.partitions.charge(c.partition(table, partitionKey), n)
	}
}

// partition returns a name for the partition that is unique among all accounts.
func (c *call) partition(table, partitionKey string) string {
	return c.account.name + "/" + strings.ToLower(table) + "/" + partitionKey
}

// condition parses If-Match into an operation.
func condition(ifMatch string, op *entity.Operation) error {
	if ifMatch == "" {
		return nil
	}
	ticks, any, err := odata.ParseETag(ifMatch)
	if err != nil {
		return err
	}
	op.Match, op.Conditional = ticks, !any
	return nil
}
