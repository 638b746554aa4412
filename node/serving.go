package node

import (
	"fmt"
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
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

// servingCounters are the counters as clients reach them; see serving.
type servingCounters struct {
	counters *counters.Counters
	refusal  func() error
	figures  *requestFigures
}

// Update implements query.CounterUpdates.
func (s servingCounters) Update(req *coordinator.WriteRequest, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.counters.Update(req, s.figures.measure(counting, done))
}

// servingBatches is the batch log as clients reach it; see serving.
type servingBatches struct {
	batches *batchlog.Log
	refusal func() error
	figures *requestFigures
}

// Write implements query.LoggedBatches.
func (s servingBatches) Write(req *coordinator.WriteRequest, done func(error)) {
	if err := s.refusal(); err != nil {
		done(err)
		return
	}
	s.batches.Write(req, s.figures.measure(batching, done))
}

func (s serving) CAS(req *coordinator.CASRequest, done func(applied bool, page []byte, err error)) {
	if err := s.refusal(); err != nil {
		done(false, nil, err)
		return
	}
	s.Coordinator.CAS(req, s.figures.measureCAS(done))
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
