package view

import (
	"cqld/coordinator"
	"cqld/paxos"
)

// Proposer is the part of the proposer that requests use.
type Proposer interface {
	CAS(req *paxos.CASRequest, done func(applied bool, page []byte, err error))
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
}

// Serial is a Proposer that also reads views. A serial read of a view is a read of a majority: it returns every
// conditional change of the base table that was acknowledged before. Writes with conditions are refused for views
// before they come here.
type Serial struct {
	Proposer
	Reader *Reader
}

// Read reads a table or a view.
func (s Serial) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	// Views have no Paxos state: a conditional change is one of the base table.
	if t := s.Reader.o.View.Schema().TableByStorage(req.Command.Table); t != nil && t.View != nil {
		s.Reader.Read(req, done)
		return
	}
	s.Proposer.Read(req, done)
}
