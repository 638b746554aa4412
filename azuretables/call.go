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
// resources (account.go, tables.go, entities.go, query.go, beyond.go). Requests that consist of several steps have
// separate types (batch, changeset, deletion). begin resets all fields. A call is used by one request at a time and
// is pooled.
type call struct {
	server    *Server
	request   request.Request // the request as the entity service receives it
	req       *httpRequest
	resp      *response
	now       time.Time     // wall clock, for dates and signatures
	began     time.Duration // monotonic
	id        string        // x-ms-request-id, as in error bodies
	method    string        // the effective method
	path      odata.Path
	params    params
	misnamed  error          // of the path, for clients that are authorized; nil if it names a resource
	account   *account       // never nil after locate, which has returned no error
	secondary bool           // addressed by the secondary endpoint, which only reads
	signed    string         // the path that the key's signature covers
	grant     *grant         // nil until authorize succeeded
	level     odata.Metadata // of the response body
	prefer    string         // return-content, return-no-content, or empty
	plan      string         // how the request reads entities; empty if it does not
	failure   *odata.Error   // nil if the request succeeded
	entity    odata.Entity   // its memory is reused
	links     links
}

// begin prepares the call for a request. With a nil request, it drops every reference to the previous one.
func (c *call) begin(ctx context.Context, req *httpRequest, resp *response) {
	d := c.server
	// Only two buffers survive: the properties of an entity, and the memory of links.
	*c = call{server: d, req: req, resp: resp, entity: c.entity, links: links{scratch: c.links.scratch[:0]}}
	if req == nil {
		return
	}
	c.now = d.o.Clock.Now()
	// The id exists before anything can fail, because error bodies contain it.
	c.id = d.newID()
	c.method = req.method
	// The deadline is computed from the monotonic clock; it also limits requests that wait for memory.
	c.began = d.o.Clock.Monotonic()
	// Azure Tables is strongly consistent: clients cannot choose a consistency level. An account may (levels).
	c.request = request.Request{Context: ctx, Client: req.remote, Deadline: c.began + d.limits.RequestTimeout,
		Consistency:       ring.Quorum,
		SerialConsistency: ring.Serial}
}

// serve locates the resource, authorizes the client, and routes the request. The caller responds to an error (fail).
func (c *call) serve() error {
	if err := c.locate(); err != nil {
		return err
	}
	// Browsers send preflight requests without credentials, so they precede authorization. An account that does not
	// exist has no rules.
	if c.method == "OPTIONS" {
		return preflight(c.properties().cors, c.req, c.resp)
	}
	var err error
	// Authorization needs the parameters, which may contain a signature.
	if c.params, err = parseParams(c.req.query); err != nil {
		return err
	}
	if err = c.authorize(); err != nil {
		return err
	}
	if c.misnamed != nil {
		return c.misnamed
	}
	// The body is compared only for authorized clients. The signature covers the header, not the body.
	if err = checkMD5(c.req.header.contentMD5, c.req.body); err != nil {
		return err
	}
	// From here on, method is the effective method.
	if err = c.negotiate(); err != nil {
		return err
	}
	return c.named(c.path.Table, c.route())
}

// locate determines the account and the resource from the URL: /account/table, or /table if the first label of the host
// name is an account. Names of accounts cannot be probed: an unknown account is one without keys, so that requests to
// it fail where requests with a wrong key do, and a malformed path is an error only for authorized clients, because the
// account determines how it is parsed.
func (c *call) locate() error {
	if c.req.host == "" { // URLs in the response contain it
		return odata.Of(odata.HostInformationNotPresent)
	}
	host := c.server.accounts.labelOf(c.req.host)
	// In the host form the account is not part of the path.
	c.path, c.misnamed = odata.ParsePath(c.req.path, host)
	c.links.tls, c.links.host = c.req.tls, c.req.host
	// Links repeat the client's form, so a client can follow them.
	if host == "" {
		c.links.account = c.path.Account
	}
	if c.account, c.secondary = c.server.accounts.find(c.path.Account); c.account == nil {
		c.account = &c.server.accounts.unknown
	}
	// The account's levels replace the defaults of begin.
	c.request.Consistency, c.request.SerialConsistency = c.account.levels(c.server.o.Consistency)
	if err := c.account.checkHost(c.req.host, c.server.o.Hosts); err != nil {
		return err
	}
	// In the path form, the signature covers the account as well.
	c.signed = c.req.path
	// The secondary endpoint of the Python SDK repeats the account.
	if c.secondary && host == "" {
		if first, rest, again := repeatedAccount(c.req.path, c.path.Account, c.account.name); again {
			c.signed = first
			c.path, c.misnamed = odata.ParsePath(rest, c.path.Account)
		}
	}
	return nil
}

// repeatedAccount handles paths that contain the account twice: in the path form, the Python SDK signs
// /races/Registrations, and then sends that path to the secondary endpoint as
// /races-secondary/races/Registrations. endpoint and account are the two names; first is the signed path, and rest is
// what follows the account.
func repeatedAccount(path, endpoint, account string) (first, rest string, ok bool) {
	first, ok = strings.CutPrefix(path, "/"+endpoint)
	// The path does not have the doubled form.
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(first, "/"+account)
	// The name must end at a slash: /races2 is a table, not the account races.
	return first, rest, ok && (rest == "" || rest[0] == '/')
}

// authorize determines the grant of the request. It then makes the request run as the account's role, and counts its
// memory for it. Authorization takes precedence over the parameter sig.
func (c *call) authorize() (err error) {
	switch {
	case c.req.header.authorization != "":
		// The key allows everything that the account's role may do.
		if err = c.account.authorizeKey(c.req, c.signed, c.params.comp, c.now); err == nil {
			c.grant = owner()
		}
	case c.params.signature.sig != "":
		c.grant, err = c.account.authorizeSignature(c.req, &c.params.signature, c.now, c.policiesOf)
	default:
		// Anonymous access does not exist: policies of tables apply to signatures only.
		err = odata.Of(odata.AuthenticationFailed)
	}
	if err == nil {
		err = c.assumeRole()
	}
	if err != nil {
		return err
	}
	// secondary is set for every grant, so that permitsChange needs no other argument.
	c.grant.secondary = c.secondary
	// From now on, the connection belongs to an authorized client (newcomers).
	if conn := c.req.conn; conn != nil {
		if !conn.trust() {
			// Too many known connections: the client may retry, on this node or another.
			return odata.Of(odata.ServerBusy)
		}
		conn.setRole(c.account.memoryRole(), c.req.memory)
	}
	return nil
}

// policiesOf returns a table's stored access policies. Nil means that it has none, or that they cannot be read.
func (c *call) policiesOf(table string) []policy {
	// Property returns an empty value if the table does not exist, so a signature does not show whether it does.
	raw := c.server.o.Service.Property(c.account.name, table, policiesProperty)
	if len(raw) == 0 {
		return nil
	}
	// They were valid when they were set. A wrong document must not open the table, so it counts as empty.
	policies, err := parsePolicies(raw)
	if err != nil {
		c.server.log.Error("cannot read a table's access policies; signatures that refer to one are refused", "table",
			table, "err", err)
	}
	return policies
}

// properties returns the account's service properties. The result is shared and must not be changed.
func (c *call) properties() *serviceProperties {
	return c.account.properties.of(c.server.o.Service.Property(c.account.name, "", serviceProperty))
}

// negotiate reads the headers about the format of the response.
func (c *call) negotiate() error {
	h := &c.req.header
	// Only the form is checked; the server answers in its own way for every version.
	if h.version != "" && !isVersion(h.version) {
		return odata.Of(odata.InvalidHeaderValue)
	}
	// X-HTTP-Method lets clients tunnel methods through POST that proxies do not forward.
	if h.method != "" {
		switch {
		case h.twice:
			return odata.Of(odata.XMethodIncorrectCount)
		case c.method != "POST":
			return odata.Of(odata.XMethodNotUsingPost)
		}
		// GET cannot be tunnelled: a POST that reads is no request of the service.
		switch m := strings.ToUpper(h.method); m {
		case "MERGE", "PATCH", "PUT", "DELETE":
			c.method = m
		default:
			return odata.Of(odata.XMethodIncorrectValue)
		}
	}
	c.prefer = preference(h.prefer)
	accept := h.accept
	// The parameter $format has precedence over the header Accept.
	if c.params.format != "" {
		accept = c.params.format
	}
	var ok bool
	// Documents about the account are XML whatever Accept says, and a batch has a level per operation.
	if c.level, ok = parseAccept(accept); !ok && !c.speaksXML() && c.path.Resource != odata.BatchEndpoint {
		return odata.Of(odata.AtomFormatNotSupported)
	}
	// The header x-cqld-cost is read last, because only valid requests are measured.
	return c.measure()
}

// parseAccept returns the level of metadata that a client requests; ok is false if the client does not accept JSON.
// Media types have no case (RFC 9110 §8.3.1).
func parseAccept(accept string) (odata.Metadata, bool) {
	accept = strings.ToLower(accept) // a copy only if it has upper case, which clients do not send
	// The level is found anywhere in the header: clients list several media types with parameters.
	switch {
	case strings.Contains(accept, "odata=nometadata"):
		return odata.NoMetadata, true
	case strings.Contains(accept, "odata=fullmetadata"):
		return odata.FullMetadata, true
	}
	// An absent header and */* accept the default, as in the service.
	return odata.MinimalMetadata, accept == "" || accept == "json" || strings.Contains(accept, "json") ||
		strings.Contains(accept, "*/*")
}

// speaksXML reports whether the resource's documents are XML. The properties of the account and the policies of a
// table are addressed by comp.
func (c *call) speaksXML() bool {
	return c.params.comp != "" && (c.path.Resource == odata.ServiceRoot || c.path.Resource == odata.EntitySet)
}

// finish adds the headers of every response. It runs after the handler or fail, exactly once.
func (c *call) finish() {
	// Azure's front end refuses before the version is known.
	if !c.resp.frontEnd {
		version := c.req.header.version
		// The version that was signed is used only if the signature was verified.
		if version == "" && c.grant != nil {
			version = c.params.signature.version // as signed
		}
		if version == "" {
			version = defaultVersion
		}
		c.resp.add("x-ms-version", version)
	}
	c.resp.add("x-ms-request-id", c.id)
	// Measured requests report their cost even if they fail.
	if c.request.Measured() {
		c.addCost()
	}
	// A longer id is not returned: it would let a client choose the size of the response's header.
	if id := c.req.header.clientRequestID; id != "" && len(id) <= 1024 {
		c.resp.add("x-ms-client-request-id", id)
	}
	// A preflight response has its CORS headers already.
	if c.account != nil && c.req.method != "OPTIONS" {
		share(c.properties().cors, c.req, c.req.method, c.resp)
	}
	// The observer runs after the response is complete, so Status and the error are final.
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

// defaultVersion is the service version in responses to requests that specify none. It is the version of the recorded
// SDK requests.
const defaultVersion = "2019-02-02"

// The names of the properties that an account and a table have besides their data.
const (
	serviceProperty  = "tables.service"
	policiesProperty = "tables.acl"
)
