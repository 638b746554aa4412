package replica

import (
	"sync"

	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// Serve makes transport answer the other nodes' Remotes from l, and l read with the transport's workers. It is called
// before the transport starts.
func Serve(transport messaging.Transport, l *Local) {
	s := &server{local: l, admit: l.admitMutations}
	s.batches.New = func() any { return &batch{} }
	s.commands.New = func() any { return &row.ReadCommand{} }
	l.workers = transport.Run
	messaging.Register(transport,
		messaging.Service{Verb: messaging.VerbMutation, Name: "mutation", Handler: s.mutate},
		messaging.Service{Verb: messaging.VerbReadRepair, Name: "read repair", Handler: s.mutate},
		messaging.Service{Verb: messaging.VerbHint, Name: "hint", Handler: s.mutate},
		messaging.Service{Verb: messaging.VerbRead, Name: "read", Blocking: true, Cancelable: s.read},
		messaging.Service{Verb: messaging.VerbDigest, Name: "digest", Blocking: true, Cancelable: s.digest},
		messaging.Service{Verb: messaging.VerbTruncate, Name: "truncate", Blocking: true, Handler: s.truncate},
		messaging.Service{Verb: messaging.VerbPartitions, Name: "partitions", Blocking: true, Cancelable: s.partitions},
		messaging.Service{Verb: messaging.VerbNewest, Name: "newest", Blocking: true, Handler: s.newest},
		// These read what is not in memory in a worker, each when it is the partition's turn.
		messaging.Service{Verb: messaging.VerbPaxosPrepare, Name: "paxos prepare", Handler: s.paxosPrepare},
		messaging.Service{Verb: messaging.VerbPaxosAccept, Name: "paxos accept", Handler: s.paxosAccept},
		messaging.Service{Verb: messaging.VerbPaxosCommit, Name: "paxos commit", Handler: s.paxosCommit},
	)
}

type server struct {
	local    *Local
	admit    func([]*row.Mutation) error
	batches  sync.Pool // *batch
	commands sync.Pool // *row.ReadCommand
}

// batch is the memory of one request's mutations. Storage copies what it applies, so the batch is
// free again when Apply has returned.
type batch struct{ mutations []*row.Mutation }

func (s *server) mutate(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	b := s.batches.Get().(*batch)
	defer s.batches.Put(b)
	epoch, mutations, err := decodeMutations(payload, b.mutations)
	if len(mutations) > len(b.mutations) {
		b.mutations = mutations
	}
	if err != nil {
		respond(nil, toRemote(err))
		return
	}
	s.local.apply(epoch, mutations, s.admit, func(err error) { respond(nil, toRemote(err)) })
}

func (s *server) read(_ ring.NodeID, payload []byte, cancel *env.Cancel, respond messaging.Respond) {
	s.answer(payload, cancel, respond, func(page []byte) { respond(page, nil) })
}

func (s *server) digest(_ ring.NodeID, payload []byte, cancel *env.Cancel, respond messaging.Respond) {
	s.answer(payload, cancel, respond, func(page []byte) {
		d := row.DigestOf(page)
		respond(d[:], nil)
	})
}

// answer reads what payload asks for and gives the page to use, or refuses.
func (s *server) answer(payload []byte, cancel *env.Cancel, respond messaging.Respond, use func(page []byte)) {
	cmd := s.commands.Get().(*row.ReadCommand)
	defer s.commands.Put(cmd)
	epoch, err := decodeRead(payload, cmd)
	if err == nil {
		err = s.local.admitRead(cmd)
	}
	if err != nil {
		respond(nil, toRemote(err))
		return
	}
	cmd.Cancel = cancel
	s.local.ReadHere(epoch, cmd, 0, func(page []byte, err error) {
		if err != nil {
			respond(nil, toRemote(err))
			return
		}
		use(page)
	})
}

func (s *server) truncate(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	epoch, t, timeout, err := decodeTruncate(payload)
	if err != nil {
		respond(nil, toRemote(err))
		return
	}
	s.local.truncateHere(epoch, t, timeout, func(err error) { respond(nil, toRemote(err)) })
}
