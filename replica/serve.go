package replica

import (
	"sync"

	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// Serve registers the handlers of other nodes' Remotes with transport, and makes l read in the transport's workers. It
// is called before the transport starts.
func Serve(transport messaging.Transport, l *Local) {
	// The method value is made once, so that a mutation allocates none.
	s := &server{local: l, admit: l.admitMutations}
	s.batches.New = func() any { return &batch{} }
	s.commands.New = func() any { return &row.ReadCommand{} }
	l.workers = transport.Run
	messaging.Register(transport,
		// Mutations do not block: storage queues them and answers later. Reads wait for the disk, so they run in
		// workers.
		messaging.Service{Verb: messaging.VerbMutation, Name: "mutation", Call: s.mutate},
		messaging.Service{Verb: messaging.VerbReadRepair, Name: "read repair", Call: s.mutate},
		messaging.Service{Verb: messaging.VerbHint, Name: "hint", Call: s.mutate},
		messaging.Service{Verb: messaging.VerbRead, Name: "read", Blocking: true, Call: s.read},
		messaging.Service{Verb: messaging.VerbDigest, Name: "digest", Blocking: true, Call: s.digest},
		messaging.Service{Verb: messaging.VerbTruncate, Name: "truncate", Blocking: true, Handler: s.truncate},
		messaging.Service{Verb: messaging.VerbNewest, Name: "newest", Blocking: true, Handler: s.newest},
	)
}

// server answers the requests of other nodes. It adds decoding to Local, and the check that this node is a replica.
type server struct {
	local    *Local
	admit    func([]*row.Mutation) error
	batches  sync.Pool // *batch
	commands sync.Pool // *row.ReadCommand
}

// batch holds the mutations of one request. Storage copies the mutations that it applies, so the batch can be reused
// after Apply has returned.
type batch struct{ mutations []*row.Mutation }

// mutate answers the three verbs of mutations. Their payload is decoded into a pooled batch, so a small one allocates
// nothing.
func (s *server) mutate(c messaging.Call, respond messaging.Respond) {
	b := s.batches.Get().(*batch)
	defer s.batches.Put(b)
	epoch, mutations, err := decodeMutations(c.Payload, b.mutations)
	// Decoding has extended the slice. The batch keeps the longer one.
	if len(mutations) > len(b.mutations) {
		b.mutations = mutations
	}
	if err != nil {
		respond(nil, ToRemote(err))
		return
	}
	done := func(err error) { respond(nil, ToRemote(err)) }
	if c.Trace != nil {
		done = s.local.traceApply(c.Trace.Add, mutations, done)
	}
	// Storage has copied the mutations when apply returns, so the batch and the payload may be reused.
	s.local.apply(epoch, mutations, s.admit, done)
}

// read answers with a page, whose memory is reused when respond has returned.
func (s *server) read(c messaging.Call, respond messaging.Respond) {
	s.answer(c, respond, func(page []byte) { respond(page, nil) })
}

// digest reads the page like read and answers with its hash. Both nodes read canonical pages (ADR 3), so equal data
// have equal digests.
func (s *server) digest(c messaging.Call, respond messaging.Respond) {
	s.answer(c, respond, func(page []byte) {
		d := row.DigestOf(page)
		respond(d[:], nil)
	})
}

// answer executes the read in c and passes the page to use, or refuses.
func (s *server) answer(c messaging.Call, respond messaging.Respond, use func(page []byte)) {
	cmd := s.commands.Get().(*row.ReadCommand)
	defer s.commands.Put(cmd)
	epoch, err := decodeRead(c.Payload, cmd)
	if err == nil {
		err = s.local.admitRead(cmd)
	}
	if err != nil {
		respond(nil, ToRemote(err))
		return
	}
	// The read stops when its coordinator no longer waits for the answer.
	cmd.Cancel = c.Cancel
	done := func(page []byte, err error) {
		if err != nil {
			respond(nil, ToRemote(err))
			return
		}
		use(page)
	}
	if c.Trace != nil {
		done = s.local.traceRead(c.Trace.Add, cmd, done)
	}
	// The page is read in this goroutine, which is a worker already.
	s.local.readPage(epoch, cmd, false, done)
}

// truncate answers one phase of a truncation. It may wait for the disk, so it runs in a worker.
func (s *server) truncate(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	epoch, t, timeout, err := decodeTruncate(payload)
	if err != nil {
		respond(nil, ToRemote(err))
		return
	}
	s.local.truncateHere(epoch, t, timeout, func(err error) { respond(nil, ToRemote(err)) })
}
