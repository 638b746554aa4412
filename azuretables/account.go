package azuretables

import (
	"bytes"

	"cqld/auth"
	"cqld/azuretables/odata"
)

// service handles requests about the account as a whole: service properties, and the state of its replication.
func (c *call) service() error {
	p := &c.params
	if p.restype != "service" {
		return odata.Of(odata.InvalidURI)
	}
	switch {
	case p.comp == "properties" && c.method == "GET":
		return c.getProperties()
	case p.comp == "properties" && c.method == "PUT":
		return c.setProperties()
	case p.comp == "stats" && c.method == "GET":
		return c.stats()
	case p.comp == "properties" || p.comp == "stats":
		return odata.Of(odata.MethodNotAllowed)
	}
	return odata.Of(odata.InvalidQueryParameterValue)
}

func (c *call) getProperties() error {
	if err := c.grant.permits(readProperties(), ""); err != nil {
		return err
	}
	if err := c.authorized(auth.Select, ""); err != nil {
		return err
	}
	c.resp.document(c.properties().append(c.resp.body))
	return nil
}

func (c *call) setProperties() error {
	if err := c.grant.permitsChange(writeProperties(), ""); err != nil {
		return err
	}
	p := *c.properties()
	if err := p.parse(c.req.body); err != nil {
		return err
	}
	if err := c.server.o.Service.SetProperty(&c.request, c.account.name, "", serviceProperty,
		p.append(nil)); err != nil {
		return err
	}
	c.resp.status = 202
	return nil
}

// stats handles requests to the secondary endpoint for replication statistics: every replica is as new as an
// acknowledged write.
func (c *call) stats() error {
	if err := c.grant.permits(readProperties(), ""); err != nil {
		return err
	}
	if err := c.authorized(auth.Select, ""); err != nil {
		return err
	}
	if !c.secondary {
		return odata.Of(odata.InvalidQueryParameterValue)
	}
	body := append(c.resp.body, xmlHeader+"<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>"...)
	body = c.now.UTC().AppendFormat(body, dateFormat)
	c.resp.document(append(body, "</LastSyncTime></GeoReplication></StorageServiceStats>"...))
	return nil
}

// policies handles requests about the stored access policies of a table.
func (c *call) policies() error {
	if c.params.comp != "acl" {
		return odata.Of(odata.InvalidQueryParameterValue)
	}
	table, service := c.path.Table, c.server.o.Service
	switch c.method {
	case "GET":
		if err := c.grant.permits(readPolicies(), table); err != nil {
			return err
		}
		if _, ok := service.Exists(c.account.name, table); !ok {
			return odata.Of(odata.ResourceNotFound)
		}
		if err := c.authorized(auth.Select, table); err != nil {
			return err
		}
		c.resp.document(appendPolicies(c.resp.body, c.policiesOf(table)))
		return nil
	case "PUT":
		if err := c.grant.permitsChange(writePolicies(), table); err != nil {
			return err
		}
		if _, ok := service.Exists(c.account.name, table); !ok {
			return odata.Of(odata.ResourceNotFound)
		}
		if err := c.authorized(auth.Authorize, table); err != nil { // policies grant access
			return err
		}
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
// is empty. Requests that only read metadata need it; the Service checks permissions for its own operations.
func (c *call) authorized(permission auth.Permission, table string) error {
	return c.server.o.Service.Authorize(&c.request, permission, c.account.name, table)
}
