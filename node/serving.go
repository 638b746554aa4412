package node

import (
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/query"
	"cqld/schema"
)

// serving is the coordinator as clients reach it: while this node must not serve, they are told so and
// drivers take the next node.
type serving struct {
	*coordinator.Coordinator
	refusal func() error
	figures *requestFigures
}

// clockRefusal says why this node must not serve for its clock; nil: it may.
func (n *Node) clockRefusal() error {
	ahead, tooFar := n.cluster.ClockOffset()
	if !tooFar {
		return nil
	}
	return &query.NotServing{Msg: fmt.Sprintf("this node's clock is %v ahead of the others'", ahead.Round(time.Millisecond))}
}

func (s serving) Write(req *coordinator.WriteRequest, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.Coordinator.Write(req, s.figures.measure(writing, done))
}

func (s serving) Count(req *coordinator.WriteRequest, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.Coordinator.Count(req, s.figures.measure(counting, done))
}

func (s serving) Batch(req *coordinator.WriteRequest, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.Coordinator.Batch(req, s.figures.measure(batching, done))
}

func (s serving) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	if err := s.refusal(); err != nil {
		done(nil, err)
		return
	}
	s.Coordinator.Read(req, s.figures.measureRead(done))
}

func (s serving) Partitions(req *coordinator.PartitionsRequest, done func(*coordinator.Partitions, error)) {
	if err := s.refusal(); err != nil {
		done(nil, err)
		return
	}
	began := s.figures.begin(listing)
	s.Coordinator.Partitions(req, func(p *coordinator.Partitions, err error) {
		s.figures.end(listing, began)
		done(p, err)
	})
}

func (s serving) Truncate(table *schema.Table, timeout time.Duration, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.Coordinator.Truncate(table, timeout, done)
}

// proposing is the proposer as clients reach it; see serving.
type proposing struct {
	*paxos.Proposer
	refusal func() error
	figures *requestFigures
}

func (s proposing) CAS(req *paxos.CASRequest, done func(applied bool, page []byte, err error)) {
	if err := s.refusal(); err != nil {
		done(false, nil, err)
		return
	}
	s.Proposer.CAS(req, s.figures.measureCAS(done))
}

func (s proposing) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	if err := s.refusal(); err != nil {
		done(nil, err)
		return
	}
	s.Proposer.Read(req, s.figures.measureRead(done))
}

// coordinatorStats returns the counts of requests of all kinds: the proposer counts those of conditional changes.
func (n *Node) coordinatorStats() coordinator.Stats {
	s, p := n.coordinator.Stats(), n.parts.Proposer.Stats()
	s.WriteTimeouts += p.WriteTimeouts
	s.Unavailable += p.Unavailable
	s.Overloaded += p.Overloaded
	s.Replans += p.Replans
	return s
}
