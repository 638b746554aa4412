package azuretables

import (
	"bytes"

	"cqld/auth"
	"cqld/azuretables/odata"
)

// service handles requests about the account as a whole: service properties, and the state of its replication. Both are
// addressed by ?restype=service&comp=... on the root path. The account's name is in the path or in the host; the root
// path names no table.
func (c *call) service() error {
	p := &c.params
	if p.restype != "service" {
		// Every other resource of the root path would be a blob or queue container, which this service does not have.
		return odata.Of(odata.InvalidURI)
	}
	switch {
	case p.comp == "properties" && c.method == "GET":
		return c.getProperties()
	case p.comp == "properties" && c.method == "PUT":
		return c.setProperties()
	case p.comp == "stats" && c.method == "GET":
		return c.stats()
	// The resource exists, but not with this method: 405 with Allow, and not an error about the parameter.
	case p.comp == "properties" || p.comp == "stats":
		return odata.Of(odata.MethodNotAllowed)
	}
	return odata.Of(odata.InvalidQueryParameterValue)
}

// getProperties responds with the service properties as an XML document; an account that has set none gets the
// defaults. The document is about a kilobyte; a client may read it without any table.
func (c *call) getProperties() error {
	// The grant limits a SAS, and authorized limits the role of the account. A request needs both.
	if err := c.grant.permits(readProperties(), ""); err != nil {
		return err
	}
	if err := c.authorized(auth.Select, ""); err != nil {
		return err
	}
	// The body is empty so far; document sets its type and status.
	c.resp.document(c.properties().append(c.resp.body))
	return nil
}

// setProperties changes the properties in the body, and keeps the others. 202 is the status that the service sends.
// Elements that the body does not have stay as they are, as in the service.
func (c *call) setProperties() error {
	if err := c.grant.permitsChange(writeProperties(), ""); err != nil {
		return err
	}
	// The properties are copied, because c.properties returns the cached value, which other requests read
	// concurrently.
	p := *c.properties()
	kept := p.cors
	if err := p.parse(c.req.body); err != nil {
		return err
	}
	// A document without rules keeps the stored ones, which may be older than the limit.
	if len(kept) == 0 || len(p.cors) == 0 || &kept[0] != &p.cors[0] {
		for i := range p.cors {
			if !p.cors[i].fewHeaders() {
				return errXML()
			}
		}
	}
	// The stored form is the complete document, so a later read does not depend on earlier versions of it.
	if err := c.server.o.Service.SetProperty(&c.request, c.account.name, "", serviceProperty,
		p.append(nil)); err != nil {
		return err
	}
	c.resp.status = 202
	return nil
}

// stats handles requests to the secondary endpoint for replication statistics: every replica is as new as an
// acknowledged write. Clients of geo-redundant accounts poll it before they read from the secondary endpoint.
func (c *call) stats() error {
	if err := c.grant.permits(readProperties(), ""); err != nil {
		return err
	}
	if err := c.authorized(auth.Select, ""); err != nil {
		return err
	}
	// The primary endpoint has no replication statistics.
	if !c.secondary {
		return odata.Of(odata.InvalidQueryParameterValue)
	}
	// LastSyncTime is the time of this request, for the reason above.
	body := append(c.resp.body, xmlHeader+"<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>"...)
	body = c.now.UTC().AppendFormat(body, dateFormat)
	c.resp.document(append(body, "</LastSyncTime></GeoReplication></StorageServiceStats>"...))
	return nil
}

// policies handles requests about the stored access policies of a table. They are addressed by /table?comp=acl.
func (c *call) policies() error {
	if c.params.comp != "acl" {
		return odata.Of(odata.InvalidQueryParameterValue)
	}
	table, service := c.path.Table, c.server.o.Service
	switch c.method {
	// HEAD is answered like GET. The transport omits the document.
	case "GET", "HEAD":
		if err := c.grant.permits(policies(), table); err != nil {
			return err
		}
		// A missing table is ResourceNotFound here and TableNotFound in requests about entities, as in the recordings.
		if _, ok := service.Exists(c.account.name, table); !ok {
			return odata.Of(odata.ResourceNotFound)
		}
		if err := c.authorized(auth.Select, table); err != nil {
			return err
		}
		// The document contains the policies as they were stored, with times in the service's format.
		c.resp.document(appendPolicies(c.resp.body, c.policiesOf(table)))
		return nil
	case "PUT":
		if err := c.grant.permitsChange(policies(), table); err != nil {
			return err
		}
		if _, ok := service.Exists(c.account.name, table); !ok {
			return odata.Of(odata.ResourceNotFound)
		}
		if err := c.authorized(auth.Authorize, table); err != nil { // policies grant access
			return err
		}
		// The document replaces the previous list as a whole. Nil policies are stored as an empty list.
		var policies []policy
		if len(bytes.TrimSpace(c.req.body)) > 0 { // an empty body removes all policies
			var err error
			if policies, err = parsePolicies(c.req.body); err != nil {
				return err
			}
		}
		if err := service.SetProperty(&c.request, c.account.name, table, policiesProperty,
			appendPolicies(nil, policies)); err != nil {
			return err
		}
		c.resp.status = 204
		return nil
	}
	return odata.Of(odata.MethodNotAllowed)
}

// authorized returns nil if the client's principal has a permission on a table, or on the account's keyspace if table
// is empty. Requests that only read metadata need it; the Service checks permissions for its own operations. table is
// as the client wrote it; the Service compares without case.
func (c *call) authorized(permission auth.Permission, table string) error {
	return c.server.o.Service.Authorize(&c.request, permission, c.account.name, table)
}
