package replica

import (
	"sync"

	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// Serve makes transport answer the other nodes' Remotes from l. It is called before the transport
// starts. Reads are answered where they arrive; writes when they are safe.
func Serve(transport messaging.Transport, l *Local) {
	s := &server{local: l, admit: l.admitMutations}
	s.batches.New = func() any { return &batch{} }
	s.commands.New = func() any { return &row.ReadCommand{} }
	transport.Handle(messaging.VerbMutation, s.mutate)
	transport.Handle(messaging.VerbReadRepair, s.mutate)
	transport.Handle(messaging.VerbHint, s.mutate)
	messaging.HandleCancelable(transport, messaging.VerbRead, s.read)
	messaging.HandleCancelable(transport, messaging.VerbDigest, s.digest)
	transport.Handle(messaging.VerbTruncate, s.truncate)
	messaging.HandleCancelable(transport, messaging.VerbPartitions, s.partitions)
	transport.Handle(messaging.VerbNewest, s.newest)
	servePaxos(transport, l)
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
	s.local.Read(epoch, cmd, 0, func(page []byte, err error) {
		if err != nil {
			respond(nil, toRemote(err))
			return
		}
		use(page)
	})
}

func (s *server) truncate(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	table, err := decodeTruncate(payload)
	if err == nil && s.local.view.Schema().TableByStorage(table) == nil {
		err = unknownTable(table)
	}
	if err != nil {
		respond(nil, toRemote(err))
		return
	}
	s.local.Truncate(table, 0, func(err error) { respond(nil, toRemote(err)) })
}
