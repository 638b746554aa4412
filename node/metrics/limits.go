package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/server"
)

// limits collects how often clients have reached bounds. The bounds of both protocols have one name and are
// distinguished by labels. Series of CQL exist from the start, and series of Azure Tables while that server is open.
func (c *Collector) limits(m sink) {
	// One name for all bounds, so that an alert need not list them.
	send := func(protocol, name string, n int64) {
		m.send(prometheus.CounterValue, "client_limits_total",
			"How often clients have reached a bound: connections refused or closed, and requests refused or delayed.",
			float64(n), []string{"protocol", "bound"}, []string{protocol, name})
	}
	// A closed server has its bounds with 0.
	q := c.o.Servers.CQL()
	// A bound has a series for each node even if the configuration sets no limit; it stays 0.
	for b := range server.Bounds {
		n := int64(0)
		if q != nil {
			n = q.Limited(b)
		}
		send("cql", b.String(), n)
	}
	// The memory is shared by the protocols.
	c.requestMemory(m)
	if t := c.o.Servers.Tables(); t != nil {
		// Other names than for CQL, because HTTP connections have other bounds.
		for name, n := range t.Limited() {
			send("tables", name, n)
		}
	}
}

// requestMemory collects the memory of requests. All kinds are in bytes, and their sum has no meaning. One pool serves
// the requests of both protocols.
func (c *Collector) requestMemory(m sink) {
	s := c.o.Memory.Stats()
	// The peak is since the start of the node.
	for _, x := range []struct {
		kind  string
		bytes int64
	}{{"used", s.Used}, {"peak", s.Peak}, {"bound", s.Bytes}, {"reserve", s.Reserve}} {
		m.send(prometheus.GaugeValue, "request_memory_bytes",
			"Memory of requests: in use, at most since the start, its bound, and the reserve for one request.",
			float64(x.bytes), []string{"kind"}, []string{x.kind})
	}
	m.send(prometheus.GaugeValue, "request_memory_waiting", "Requests that wait for memory now.", float64(s.Waiting),
		nil, nil)
	m.send(prometheus.CounterValue, "request_memory_waits_total", "How often requests had to wait for memory.",
		float64(s.Waits), nil, nil)
	// Writes wait for the disk in a pool of their own (node.newRoom).
	room := c.o.Room.Stats()
	m.send(prometheus.GaugeValue, "disk_waiting_writes", "Writes of clients that wait for the disk now.",
		float64(room.Waiting), nil, nil)
	m.send(prometheus.CounterValue, "disk_waits_total", "How often writes of clients had to wait for the disk.",
		float64(room.Waits), nil, nil)
	m.send(prometheus.CounterValue, "disk_wait_refusals_total",
		"Writes of clients that were refused after they had waited for the disk.", float64(room.Refused), nil, nil)
	// A request is refused because the pool was exhausted, or because it alone is too large.
	for reason, n := range map[string]int64{"exhausted": s.Refused, "size": s.Oversized} {
		m.send(prometheus.CounterValue, "request_memory_refusals_total",
			"Requests that got no memory in time, or needed more than a request may use.",
			float64(n), []string{"reason"}, []string{reason})
	}
}

// panics collects the counts of recovered panics. A place without a panic has no series. where is the name that the
// code gave to the guard, for example "timer" or "background job"; it is never data of a client.
func (c *Collector) panics(m sink) {
	for where, n := range c.o.Guard.Counts() {
		m.send(prometheus.CounterValue, "node_panics_total",
			"Panics that ended a request or a job; each is a defect, and in the log with its stack.",
			float64(n), []string{"where"}, []string{where})
	}
}
