package azuretables

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/request"
	"cqld/ring"
	"cqld/tlsconfig"
)

// Options configures a Server.
type Options struct {
	Service entity.Service
	// Accounts are the configured accounts. Directory, unless nil, returns the current roles of the cluster with
	// their accounts, which precede accounts of the same name in Accounts; it must not allocate or block.
	Accounts  []Account
	Directory func() *auth.Directory
	// Development serves the development account as long as there is no other account.
	Development bool
	// Admit, unless nil, refuses clients by the role of their account and their address. It is called for each request.
	Admit  func(role string, client netip.Addr) error
	Clock  env.Clock
	Rand   env.Rand // safe for concurrent use; generates ids of requests and batches
	Logger *slog.Logger
	Limits Limits
	// Hosts are the host names, without port, by which clients may address the development account, in addition to IP
	// addresses and localhost.
	Hosts []string
	// TLS encrypts connections (HTTPS); nil means HTTP. TLSOptional serves clients of both.
	TLS         *tls.Config
	TLSOptional bool
	// Guard handles panics of requests; nil means one that logs to Logger.
	Guard *guard.Guard
	// Consistency applies to accounts without their own: Quorum, also if it is empty, or LocalQuorum.
	Consistency string
	// Memory is the memory of requests; nil means no bound.
	Memory *memory.Pool
	// AccountTarget and PartitionTarget are entities per second of each account and partition. Requests beyond them are
	// refused with ServerBusy; 0 means no limit.
	AccountTarget, PartitionTarget int
	// Answered, unless nil, is called for every well-formed request; it must be fast.
	Answered func(Answer)
}

// Answer describes the outcome of a request. Its strings are valid only during the call.
type Answer struct {
	Resource     odata.Resource // zero if the URL names none
	Method, Comp string         // the effective method, and the query's comp
	Status       int
	Took         time.Duration
	Client       netip.AddrPort
	Account      string     // as the client wrote it
	Role         string     // as which the request ran; empty if it was not authorized, or is anonymous
	Table        string     // as the client wrote it; empty if the URL names none
	Code         odata.Code // of the error; empty after a success
	Error        string     // the message of the error

	path, query string
}

// URL returns the path and the query of the request, as the client sent them, without the value of a signature.
func (a *Answer) URL() string {
	if a.query == "" {
		return a.path
	}
	return a.path + "?" + redactQuery(a.query)
}

// Server serves requests of the Table service. It is safe for concurrent use.
type Server struct {
	o          Options
	limits     Limits
	log        *slog.Logger
	guard      *guard.Guard
	accounts   accounts
	byAccount  *throttle
	partitions *throttle
	calls      sync.Pool // *call
	carrier    *carrier
	encryption tlsconfig.Counts
}

// New returns a Server that does not listen yet. Its errors name the account whose name or key is invalid.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	d := &Server{o: o, limits: o.Limits.withDefaults(), log: o.Logger, guard: o.Guard}
	if d.guard == nil {
		d.guard = guard.New(o.Logger)
	}
	if err := d.accounts.configure(&o); err != nil {
		return nil, err
	}
	d.byAccount = newThrottle(o.AccountTarget, 1, o.Clock.Monotonic)
	d.partitions = newThrottle(o.PartitionTarget, bucketSets, o.Clock.Monotonic)
	d.calls.New = func() any { return &call{server: d} }
	d.carrier = newCarrier(d)
	return d, nil
}

// Limited returns how often clients have reached bounds, by the name of the bound: connections that were closed because
// too many sent no authorized request, connections refused because their address had too many, and requests refused
// because too many connections were open.
func (d *Server) Limited() map[string]int64 {
	g := d.carrier.newcomers
	return map[string]int64{"handshakes": g.closed.Load(), "connections_per_address": g.refused.Load(),
		"connections": g.refusedKnown.Load()}
}

// call is the state of one request. begin resets all fields.
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
	hostForm  bool
	signed    string // the path that the key's signature covers
	grant     *grant
	level     odata.Metadata
	prefer    string // return-content, return-no-content, or empty
	plan      string // how the request reads entities; empty if it does not
	failure   *odata.Error
	entity    odata.Entity
	scratch   []byte
}

// handle serves one request.
func (d *Server) handle(ctx context.Context, req *httpRequest, resp *response) {
	c := d.calls.Get().(*call)
	c.begin(ctx, req, resp)
	c.request.Memory = req.memory
	err := c.request.Grow(len(req.body))
	if err == nil {
		err = c.serve()
	}
	if err != nil {
		c.fail(err)
	}
	c.finish()
	clear(c.entity.Properties) // their bytes belong to the request
	c.begin(nil, nil, nil)     //nolint:staticcheck // a call that is kept must hold no context
	d.calls.Put(c)
}

// recognize returns nil if the client is authorized, and may thus send a large body. Signatures cover everything but
// the body.
func (d *Server) recognize(req *httpRequest) error {
	c := &call{server: d}
	c.begin(context.Background(), req, nil)
	err := c.locate()
	if err == nil {
		c.params, err = parseParams(req.query)
	}
	if err == nil {
		err = c.authorize()
	}
	return err
}

// reject responds to a request that was not read completely.
func (d *Server) reject(req *httpRequest, resp *response, err error) {
	c := &call{server: d}
	c.begin(context.Background(), req, resp)
	c.fail(err)
	c.finish()
}

func (c *call) begin(ctx context.Context, req *httpRequest, resp *response) {
	d := c.server
	*c = call{server: d, req: req, resp: resp, entity: c.entity, scratch: c.scratch[:0]}
	if req == nil {
		return
	}
	c.now = d.o.Clock.Now()
	c.id = d.newID()
	c.method = req.method
	c.began = d.o.Clock.Monotonic()
	// Azure Tables is strongly consistent: clients cannot choose a consistency level. An account may (setLevels).
	c.request = request.Request{Context: ctx, Client: req.remote, Deadline: c.began + d.limits.RequestTimeout,
		Consistency:       ring.Quorum,
		SerialConsistency: ring.Serial}
}

// newID returns an id in the format of requests and batches.
func (d *Server) newID() string {
	const hex = "0123456789abcdef"
	var out [36]byte
	hi, lo := d.o.Rand.Uint64(), d.o.Rand.Uint64()
	for i, n := 0, 0; i < len(out); i++ {
		switch i {
		case 8, 13, 18, 23:
			out[i] = '-'
			continue
		}
		word := hi
		if n >= 16 {
			word = lo
		}
		out[i] = hex[word>>(n%16*4)&15]
		n++
	}
	return string(out[:])
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
	c.hostForm = host != ""
	if c.account, c.secondary = c.server.accounts.find(c.path.Account); c.account == nil {
		return odata.Of(odata.AuthenticationFailed)
	}
	c.setLevels()
	if err := c.checkHost(); err != nil {
		return err
	}
	c.signed = c.req.path
	if first, rest, again := c.repeated(); again {
		c.signed = first
		c.path, err = odata.ParsePath(rest, c.path.Account)
	}
	return err
}

// repeated handles paths that contain the account twice: in the path form, the Python SDK signs /races/Registrations,
// and then sends that path to the secondary endpoint as /races-secondary/races/Registrations. first is the signed path,
// and rest is what follows the account.
func (c *call) repeated() (first, rest string, ok bool) {
	if !c.secondary || c.hostForm {
		return "", "", false
	}
	first, ok = strings.CutPrefix(c.req.path, "/"+c.path.Account)
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(first, "/"+c.account.name)
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
	if err == nil && c.req.conn != nil && !c.req.conn.trust() {
		err = odata.Of(odata.ServerBusy)
	}
	if err == nil && c.req.conn != nil {
		c.req.conn.setRole(c.memoryRole(), c.req.memory)
	}
	return err
}

// memoryRole returns the name of the role that the request's memory counts for: the role of the account, or the account
// if it has none.
func (c *call) memoryRole() string {
	if c.account.role != "" {
		return c.account.role
	}
	return "tables:" + c.account.name
}

func owner() *grant { return &grant{owner: true} }

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
