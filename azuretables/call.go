package azuretables

import (
	"context"
	"strings"
	"time"

	"cqld/azuretables/odata"
	"cqld/request"
	"cqld/ring"
)

// call is one request: what it addresses, what its client may do, and its response. It contains the handlers of
// resources (account.go, tables.go, entities.go, query.go, beyond.go). Requests that consist of several steps have a
// type of their own (batch, changeset, deletion). begin resets all fields.
type call struct {
	server    *Server
	request   request.Request // the request as the entity service receives it
	req       *httpRequest
	resp      *response
	now       time.Time
	began     time.Duration // monotonic
	id        string
	method    string // the effective method
	path      odata.Path
	params    params
	account   *account
	secondary bool
	signed    string // the path that the key's signature covers
	grant     *grant
	level     odata.Metadata
	prefer    string // return-content, return-no-content, or empty
	plan      string // how the request reads entities; empty if it does not
	failure   *odata.Error
	entity    odata.Entity
	links     links
}

func (c *call) begin(ctx context.Context, req *httpRequest, resp *response) {
	d := c.server
	*c = call{server: d, req: req, resp: resp, entity: c.entity, links: links{scratch: c.links.scratch[:0]}}
	if req == nil {
		return
	}
	c.now = d.o.Clock.Now()
	c.id = d.newID()
	c.method = req.method
	c.began = d.o.Clock.Monotonic()
	// Azure Tables is strongly consistent: clients cannot choose a consistency level. An account may (levels).
	c.request = request.Request{Context: ctx, Client: req.remote, Deadline: c.began + d.limits.RequestTimeout,
		Consistency:       ring.Quorum,
		SerialConsistency: ring.Serial}
}

// serve locates the resource, authorizes the client, and routes the request.
func (c *call) serve() error {
	if err := c.locate(); err != nil {
		return err
	}
	if c.method == "OPTIONS" {
		return preflight(c.properties().cors, c.req, c.resp)
	}
	var err error
	if c.params, err = parseParams(c.req.query); err != nil {
		return err
	}
	if err = c.authorize(); err != nil {
		return err
	}
	if err = checkMD5(c.req.header.contentMD5, c.req.body); err != nil {
		return err
	}
	if err = c.negotiate(); err != nil {
		return err
	}
	return c.named(c.path.Table, c.route())
}

// locate determines the account and the resource from the URL: /account/table, or /table if the first label of the host
// name is an account.
func (c *call) locate() error {
	if c.req.host == "" { // URLs in the response contain it
		return odata.Of(odata.HostInformationNotPresent)
	}
	label, _, dotted := strings.Cut(c.req.host, ".")
	host := ""
	if dotted {
		if a, _ := c.server.accounts.find(label); a != nil {
			host = label
		}
	}
	var err error
	if c.path, err = odata.ParsePath(c.req.path, host); err != nil {
		return err
	}
	c.links.tls, c.links.host = c.req.tls, c.req.host
	if host == "" {
		c.links.account = c.path.Account
	}
	if c.account, c.secondary = c.server.accounts.find(c.path.Account); c.account == nil {
		return odata.Of(odata.AuthenticationFailed)
	}
	c.request.Consistency, c.request.SerialConsistency = c.account.levels(c.server.o.Consistency)
	if err := c.account.checkHost(c.req.host, c.server.o.Hosts); err != nil {
		return err
	}
	c.signed = c.req.path
	if c.secondary && host == "" {
		if first, rest, again := repeatedAccount(c.req.path, c.path.Account, c.account.name); again {
			c.signed = first
			c.path, err = odata.ParsePath(rest, c.path.Account)
		}
	}
	return err
}

// repeatedAccount handles paths that contain the account twice: in the path form, the Python SDK signs
// /races/Registrations, and then sends that path to the secondary endpoint as
// /races-secondary/races/Registrations. endpoint and account are the two names; first is the signed path, and rest is
// what follows the account.
func repeatedAccount(path, endpoint, account string) (first, rest string, ok bool) {
	first, ok = strings.CutPrefix(path, "/"+endpoint)
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(first, "/"+account)
	return first, rest, ok && (rest == "" || rest[0] == '/')
}

// authorize determines the grant of the request.
func (c *call) authorize() (err error) {
	switch {
	case c.req.header.authorization != "":
		if err = c.account.authorizeKey(c.req, c.signed, c.params.comp, c.now); err == nil {
			c.grant = owner()
		}
	case c.params.signature.sig != "":
		c.grant, err = c.account.authorizeSignature(c.req, &c.params.signature, c.now, c.policiesOf)
	default:
		err = odata.Of(odata.AuthenticationFailed)
	}
	if err == nil {
		err = c.assumeRole()
	}
	if err != nil {
		return err
	}
	c.grant.secondary = c.secondary
	if conn := c.req.conn; conn != nil {
		if !conn.trust() {
			return odata.Of(odata.ServerBusy)
		}
		conn.setRole(c.account.memoryRole(), c.req.memory)
	}
	return nil
}

// policiesOf returns a table's stored access policies.
func (c *call) policiesOf(table string) []policy {
	raw := c.server.o.Service.Property(c.account.name, table, policiesProperty)
	if len(raw) == 0 {
		return nil
	}
	policies, err := parsePolicies(raw)
	if err != nil {
		c.server.log.Error("cannot read a table's access policies; signatures that refer to one are refused", "table",
			table, "err", err)
	}
	return policies
}

// properties returns the account's service properties.
func (c *call) properties() *serviceProperties {
	return c.account.properties.of(c.server.o.Service.Property(c.account.name, "", serviceProperty))
}

// negotiate reads the headers about the format of the response.
func (c *call) negotiate() error {
	h := &c.req.header
	if h.version != "" && !isVersion(h.version) {
		return odata.Of(odata.InvalidHeaderValue)
	}
	if h.method != "" {
		switch {
		case h.twice:
			return odata.Of(odata.XMethodIncorrectCount)
		case c.method != "POST":
			return odata.Of(odata.XMethodNotUsingPost)
		}
		switch m := strings.ToUpper(h.method); m {
		case "MERGE", "PATCH", "PUT", "DELETE":
			c.method = m
		default:
			return odata.Of(odata.XMethodIncorrectValue)
		}
	}
	c.prefer = preference(h.prefer)
	accept := h.accept
	if c.params.format != "" {
		accept = c.params.format
	}
	var ok bool
	if c.level, ok = parseAccept(accept); !ok && !c.speaksXML() && c.path.Resource != odata.BatchEndpoint {
		return odata.Of(odata.AtomFormatNotSupported)
	}
	return c.measure()
}

// parseAccept returns the level of metadata that a client requests; ok is false if the client does not accept JSON.
func parseAccept(accept string) (odata.Metadata, bool) {
	switch {
	case strings.Contains(accept, "odata=nometadata"):
		return odata.NoMetadata, true
	case strings.Contains(accept, "odata=fullmetadata"):
		return odata.FullMetadata, true
	}
	return odata.MinimalMetadata, accept == "" || accept == "json" || strings.Contains(accept, "json") ||
		strings.Contains(accept, "*/*")
}

// speaksXML reports whether the resource's documents are XML.
func (c *call) speaksXML() bool {
	return c.params.comp != "" && (c.path.Resource == odata.ServiceRoot || c.path.Resource == odata.EntitySet)
}

// finish adds the headers of every response.
func (c *call) finish() {
	if !c.resp.frontEnd {
		version := c.req.header.version
		if version == "" && c.grant != nil {
			version = c.params.signature.version // as signed
		}
		if version == "" {
			version = defaultVersion
		}
		c.resp.add("x-ms-version", version)
	}
	c.resp.add("x-ms-request-id", c.id)
	if c.request.Measured() {
		c.addCost()
	}
	if id := c.req.header.clientRequestID; id != "" && len(id) <= 1024 {
		c.resp.add("x-ms-client-request-id", id)
	}
	if c.account != nil && c.req.method != "OPTIONS" {
		share(c.properties().cors, c.req, c.req.method, c.resp)
	}
	if o := &c.server.o; o.Answered != nil {
		a := Answer{Resource: c.path.Resource, Method: c.method, Comp: c.params.comp, Status: c.resp.status,
			Took:   o.Clock.Monotonic() - c.began,
			Client: c.req.remote, Account: c.path.Account, Role: c.request.Principal.Name, Table: c.path.Table,
			path: c.req.path, query: c.req.query}
		if c.failure != nil {
			a.Code, a.Error = c.failure.Code, c.failure.Message
		}
		o.Answered(a)
	}
}

// defaultVersion is the service version in responses to requests that specify none.
const defaultVersion = "2019-02-02"

// The names of the properties that an account and a table have besides their data.
const (
	serviceProperty  = "tables.service"
	policiesProperty = "tables.acl"
)
