package request

import (
	"sync"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
)

// Cost counts the work that a request caused. Each page of a paged query is a request of its own.
type Cost struct {
	// Path names the access path of a CQL statement: how it found the partitions that it read. A SELECT sets it only if the request
	// is measured; it is empty if nothing was read.
	Path string
	// Rows counts the live rows that the coordinator examined, whether they are part of the answer or not. A partition that is
	// returned for its static columns alone counts as a row.
	Rows int
	// Tombstones counts the deleted and expired rows that the coordinator examined, and both bounds of each range tombstone.
	Tombstones int
	Partitions int // whose rows, or deletions, the coordinator received
	Commands   int // reads that the coordinator executed
	Bytes      int // size of the pages that answered them
}

// CountPage adds the rows, tombstones and partitions of a page of which each row is examined, as of now, in seconds. The Executor counts
// the command and the bytes.
func (c *Cost) CountPage(page []byte, now int64) {
	rows, tombstones, partitions := row.CountPage(page, now)
	c.Rows += rows
	c.Tombstones += tombstones
	c.Partitions += partitions
}

// Measure makes the request record what only a client that asks for the cost needs: the access path, the replicas, and the reads of
// conditional changes. It must be called before the request is executed.
func (r *Request) Measure() {
	if r.contacts == nil {
		r.contacts = new(coordinator.Contacts)
	}
}

// Measured reports whether Measure was called.
func (r *Request) Measured() bool { return r.contacts != nil }

// Replicas returns the replicas to which reads and writes of the request were sent until now, in ascending order. It returns nil unless the
// request is measured.
func (r *Request) Replicas() []ring.NodeID {
	if r.contacts == nil {
		return nil
	}
	return r.contacts.Nodes()
}

// observer returns what observes an operation of the coordinator for the request; nil means nothing.
func (r *Request) observer() coordinator.Trace {
	if r.contacts == nil {
		return r.Trace
	}
	return r.contacts.Observe(r.Trace)
}

// casCost counts the reads of one conditional change. The proposer may ask for the change more than once, and even after it has
// answered with an error, so the counts have a mutex.
type casCost struct {
	mu   sync.Mutex
	cost Cost
}

// measure returns a copy of req whose reads are counted.
func (c *casCost) measure(req *paxos.CASRequest) *paxos.CASRequest {
	out := *req
	out.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
		c.mu.Lock()
		c.cost.CountPage(page, req.Command.Now)
		c.cost.Commands++
		c.cost.Bytes += len(page)
		c.mu.Unlock()
		return req.Update(page, timestamp)
	}
	return &out
}

// addTo adds the counts to the cost of r.
func (c *casCost) addTo(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Cost.Rows += c.cost.Rows
	r.Cost.Tombstones += c.cost.Tombstones
	r.Cost.Partitions += c.cost.Partitions
	r.Cost.Commands += c.cost.Commands
	r.Cost.Bytes += c.cost.Bytes
}
