package azuretables

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/tlsconfig"
)

// Options configures a Server. Service, Clock and Rand are required.
type Options struct {
	Service entity.Service // executes the requests; see entity.Service
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
	// Answered, unless nil, is called for every response, including those to malformed HTTP; it must be fast.
	Answered func(Answer)
}

// Answer describes the outcome of a request. Its strings are valid only during the call. For malformed HTTP,
// only Status, Client, Code and Error are set.
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
	rates      rates
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
	d.rates = rates{
		accounts:   newThrottle(o.AccountTarget, 1, o.Clock.Monotonic),
		partitions: newThrottle(o.PartitionTarget, bucketSets, o.Clock.Monotonic),
	}
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

// handle serves one request. It runs on the goroutine of the connection, and returns when resp is complete. ctx ends
// if the client disconnects.
func (d *Server) handle(ctx context.Context, req *httpRequest, resp *response) {
	c := d.calls.Get().(*call)
	c.begin(ctx, req, resp)
	// Counted before anything is parsed: the body is the first memory of the request.
	c.request.Memory = req.memory
	err := c.request.Grow(len(req.body))
	if err == nil {
		err = c.serve()
	}
	if err != nil {
		c.fail(err)
	}
	// finish is called even after an error, so that every response has its id and version.
	c.finish()
	clear(c.entity.Properties) // their bytes belong to the request
	c.begin(nil, nil, nil)     //nolint:staticcheck // a call that is kept must hold no context
	d.calls.Put(c)
}

// recognize returns nil if the client is authorized, and may thus send a large body. Signatures cover everything but
// the body. It checks the same as serve, in the same order, up to the authorization. It sets the role of req.
func (d *Server) recognize(req *httpRequest) error {
	// A separate call is used, because serve begins again with the complete request.
	c := &call{server: d}
	c.begin(context.Background(), req, nil)
	err := c.locate()
	if err == nil {
		c.params, err = parseParams(req.query)
	}
	if err == nil {
		err = c.authorize()
	}
	req.role = c.request.Principal.Name
	return err
}

// reject responds to a request that was not read completely. It locates the account and the resource for the observer,
// the format of the error and the CORS headers, but authorizes nothing: only recognize does. The response has an id,
// which the log contains.
func (d *Server) reject(req *httpRequest, resp *response, err error) {
	c := &call{server: d}
	c.begin(context.Background(), req, resp)
	c.request.Principal.Name = req.role
	// The client gets err, which precedes what may be wrong with the address.
	_ = c.locate()
	c.params, _ = parseParams(req.query)
	c.fail(err)
	c.finish()
}

// newID returns an id in the format of requests and batches. The form is a random UUID's, without its version bits. Ids
// are unique by chance: 128 random bits.
func (d *Server) newID() string {
	const hex = "0123456789abcdef"
	// Four groups are separated by hyphens.
	var out [36]byte
	hi, lo := d.o.Rand.Uint64(), d.o.Rand.Uint64()
	for i, n := 0, 0; i < len(out); i++ {
		switch i {
		case 8, 13, 18, 23:
			out[i] = '-'
			continue
		}
		// Sixteen digits are in each of the two words, from the lowest bits.
		word := hi
		if n >= 16 {
			word = lo
		}
		out[i] = hex[word>>(n%16*4)&15]
		n++
	}
	return string(out[:])
}
