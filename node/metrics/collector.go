package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cqld/audit"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/messaging"
	"cqld/node/access"
	"cqld/node/admin"
	"cqld/node/assembly"
	"cqld/node/certificates"
	"cqld/node/clients"
	"cqld/node/config"
	"cqld/node/operation"
	"cqld/node/tablestats"
	"cqld/query"
	"cqld/request"
)

// Options configure New. All fields are required. The collector keeps them, and reads the parts without changing them.
type Options struct {
	Config       *config.Options
	Instance     *assembly.Instance
	Transport    *messaging.StreamTransport
	Servers      *clients.Servers
	Certificates *certificates.Set
	Access       *access.Access
	Audit        *audit.Log
	Tables       *tablestats.Engine
	Commands     *admin.Commands
	CQL          *request.Executor // of requests of CQL clients
	AzureTables  *request.Executor
	Answered     *operation.Counts
	Memory       *memory.Pool // of the requests of clients
	Room         *memory.Pool // of writes that wait for the disk
	Guard        *guard.Guard
	Traces       *query.TraceBudget
	Functions    func() query.FunctionStats
	Clock        env.Clock
}

// Collector reads the counters of the parts of a node when Prometheus collects. It implements prometheus.Collector. Its
// methods read atomic counters and snapshots, and are safe for concurrent use. It keeps no state between collections,
// so figures of a closed part vanish with it. A counter that begins again at 0 is a reset for Prometheus' rate().
type Collector struct{ o Options }

// New returns the collector of a node.
func New(o Options) *Collector { return &Collector{o: o} }

// Page serves the metrics to Prometheus. A registry of its own, because a process may contain several nodes (tests).
// The runtime's and the process' own metrics are on the same page. Each call returns a handler with a registry of its
// own.
func (c *Collector) Page() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), c)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// Describe implements prometheus.Collector. Without descriptions, the registry checks the collected metrics. Prometheus
// calls such a collector unchecked: the metrics may depend on the schema and on the members.
func (*Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Names of different methods are distinct: the registry refuses a series that
// occurs twice. Every part is read once for each request of Prometheus; there is no interval of its own. It may run
// concurrently with itself and with every part of the node. A metric that is wrong would fail the whole page.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	// The order has no meaning: Prometheus sorts by name.
	m := sink{out}
	c.ring(m)
	c.load(m)
	c.requests(m)
	// Both protocols share names, and differ in a label.
	c.coordinatorRequests(m, "cql", c.o.CQL)
	c.coordinatorRequests(m, "tables", c.o.AzureTables)
	c.answered(m)
	c.logins(m)
	c.storage(m)
	c.memory(m)
	c.functions(m)
	c.vectors(m)
	c.tables(m)
	c.jobs(m)
	c.archive(m)
	c.builds(m)
	c.panics(m)
	c.audit(m)
	c.limits(m)
	c.encryption(m)
	c.traces(m)
}
