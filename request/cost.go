package request

import (
	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
)

// Cost counts the work of a request. Each page of a paged query is a separate request.
//
// Packages that execute statements add to it while the request runs, and servers return it to clients that request
// it. It is not a limit.
type Cost struct {
	// Path names the access path of a CQL statement: how it found the partitions that it read. A SELECT sets it only if
	// the request is measured; it is empty if nothing was read.
	Path string
	// Rows counts the live rows that the coordinator examined, whether the response contains them or not. A partition
	// that is returned only for its static columns counts as a row.
	Rows int
	// Tombstones counts the deleted and expired rows that the coordinator examined, and both bounds of each range
	// tombstone.
	Tombstones int
	// Partitions counts the partitions with rows or deletions that the coordinator received.
	Partitions int
	// Commands counts the reads that the coordinator, or the leader of a counter update, executed.
	Commands int
	// Bytes is the size of the pages of these reads.
	Bytes int
}

// CountPage adds the rows, tombstones and partitions of a page whose rows are all examined, as of now, in seconds. The
// Executor counts the command and the bytes.
func (c *Cost) CountPage(page []byte, now int64) {
	rows, tombstones, partitions := row.CountPage(page, now)
	c.Rows += rows
	c.Tombstones += tombstones
	c.Partitions += partitions
}

// Measure makes the request record the access path, the replicas, and the reads of conditional changes and counter
// updates, for clients that request the cost. It must be called before the request is executed.
func (r *Request) Measure() {
	if r.observation == nil {
		r.observation = new(coordinator.Observation)
	}
}

// Measured reports whether Measure was called.
func (r *Request) Measured() bool { return r.observation != nil }

// Replicas returns the replicas to which reads and writes of the request have been sent, in ascending order. It returns
// nil unless the request is measured.
func (r *Request) Replicas() []ring.NodeID {
	if r.observation == nil {
		return nil
	}
	return r.observation.Nodes()
}

// observer returns the trace for an operation of the coordinator, or nil. For a measured request, the trace also
// records the observation.
func (r *Request) observer() coordinator.Trace {
	if r.observation == nil {
		return r.Trace
	}
	return r.observation.Observe(r.Trace)
}

// addReads adds the reads of a measured request's writes to its cost. Writes read in two cases: conditional changes,
// and updates of counters.
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

// measureCAS returns a copy of req that counts what the change reads. The proposer may call Update more than once, and
// even after it has returned an error, so the observation, which is safe for concurrent use, counts the pages.
func (r *Request) measureCAS(req *paxos.CASRequest) *paxos.CASRequest {
	out, observation := *req, r.observation
	out.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
		observation.AddReads(coordinator.ReadsOf(page, req.Command.Now))
		return req.Update(page, timestamp)
	}
	return &out
}
