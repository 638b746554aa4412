package request

import (
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
	Commands   int // reads that the coordinator, or the leader of a counter update, executed
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
// conditional changes and counter updates. It must be called before the request is executed.
func (r *Request) Measure() {
	if r.observation == nil {
		r.observation = new(coordinator.Observation)
	}
}

// Measured reports whether Measure was called.
func (r *Request) Measured() bool { return r.observation != nil }

// Replicas returns the replicas to which reads and writes of the request were sent until now, in ascending order. It returns nil unless the
// request is measured.
func (r *Request) Replicas() []ring.NodeID {
	if r.observation == nil {
		return nil
	}
	return r.observation.Nodes()
}

// observer returns what observes an operation of the coordinator for the request; nil means nothing.
func (r *Request) observer() coordinator.Trace {
	if r.observation == nil {
		return r.Trace
	}
	return r.observation.Observe(r.Trace)
}

// addReads adds what writes of a measured request have read to its cost.
func (r *Request) addReads() {
	if r.observation == nil {
		return
	}
	x := r.observation.TakeReads()
	r.Cost.Rows += x.Rows
	r.Cost.Tombstones += x.Tombstones
	r.Cost.Partitions += x.Partitions
	r.Cost.Commands += x.Commands
	r.Cost.Bytes += x.Bytes
}

// measureCAS returns a copy of req that records what the change reads. The proposer may ask for the change more than once, and even after
// it has answered with an error, so that the page is counted by the observation, which is safe for concurrent use.
func (r *Request) measureCAS(req *paxos.CASRequest) *paxos.CASRequest {
	out, observation := *req, r.observation
	out.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
		observation.AddReads(coordinator.ReadsOf(page, req.Command.Now))
		return req.Update(page, timestamp)
	}
	return &out
}
