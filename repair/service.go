package repair

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/reading"
)

// Engine is the part of storage that a Service needs.
type Engine interface {
	Hash(cmd *reading.HashCommand, leaf func(int, reading.LeafHash)) (next []byte, scanned int64, err error)
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	Lift(table schema.StorageID, tokens ring.Range, loss uint64) error
	LastLoss() uint64
	Drain() error
}

// ServiceOptions are the dependencies of a Service. All are required except StepBytes.
type ServiceOptions struct {
	View      coordinator.View
	Local     *replica.Local
	Engine    Engine
	Transport messaging.Transport
	// Run runs work that waits for the disk: in a separate goroutine in production, or synchronously in simulation.
	Run     func(func())
	History *History
	// StepBytes is the number of bytes hashed in one step; zero means 1 MiB.
	StepBytes int64
}

// Service executes a replica's part of repairs. It answers requests of other nodes and implements Peers: it executes
// requests to this node itself, and sends all others. It is safe for concurrent use.
type Service struct {
	o  ServiceOptions
	mu struct {
		sync.Mutex
		// losses has, for each session, the number of the last loss before its first step on this node; order lists
		// the sessions, oldest first.
		losses map[uint64]uint64
		order  []uint64
	}
}

var _ Peers = (*Service)(nil)

// NewService registers the handlers of the repair verbs. Call it before the transport starts.
func NewService(o ServiceOptions) *Service {
	o.StepBytes = cmp.Or(o.StepBytes, stepBytesDefault)
	s := &Service{o: o}
	s.mu.losses = map[uint64]uint64{}
	messaging.Register(o.Transport,
		messaging.Service{Verb: messaging.VerbMerkle, Name: "merkle", Blocking: true, Handler: s.serveHash},
		messaging.Service{Verb: messaging.VerbRepaired, Name: "repaired", Blocking: true, Handler: s.serveNotice},
	)
	return s
}

// serveHash answers VerbMerkle with one step.
func (s *Service) serveHash(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	req, err := decodeHashRequest(payload)
	if err != nil {
		respond(nil, replica.ToRemote(err))
		return
	}
	// The handler runs in a worker, which may wait for the disk.
	s.hash(req, callNow, func(step HashStep, err error) {
		if err != nil {
			respond(nil, replica.ToRemote(err))
			return
		}
		respond(appendHashStep(nil, &step), nil)
	})
}

// serveNotice answers VerbRepaired when the notice is recorded.
func (s *Service) serveNotice(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	n, err := decodeNotice(payload)
	if err == nil {
		err = s.repaired(&n)
	}
	respond(nil, replica.ToRemote(err))
}

// Hash implements Peers.
func (s *Service) Hash(node ring.NodeID, req *HashRequest, timeout time.Duration, done func(HashStep, error)) {
	if node == s.o.View.Self() {
		// The request is copied, because the caller may reuse it.
		own := *req
		s.hash(&own, s.o.Run, done)
		return
	}
	s.o.Transport.Request(node, messaging.VerbMerkle, appendHashRequest(nil, req), timeout,
		func(payload []byte, err error) {
			if err != nil {
				done(HashStep{}, replica.FromRemote(err))
				return
			}
			done(decodeHashStep(payload))
		})
}

// Repaired implements Peers.
func (s *Service) Repaired(node ring.NodeID, n *Notice, timeout time.Duration, done func(error)) {
	if node == s.o.View.Self() {
		own := *n
		s.o.Run(func() { done(s.repaired(&own)) })
		return
	}
	s.o.Transport.Request(node, messaging.VerbRepaired, appendNotice(nil, n), timeout, func(_ []byte, err error) {
		done(replica.FromRemote(err))
	})
}

// callNow calls f in the caller's goroutine, which may block on the disk.
func callNow(f func()) { f() }

// errTopologyUnknown refuses a request that requires a later topology than this node has applied. The requester
// retries.
var errTopologyUnknown = errors.New("repair: this node has not applied the required topology yet")

// hash performs one step of hashing. run runs the part that reads the disk.
func (s *Service) hash(req *HashRequest, run func(func()), done func(HashStep, error)) {
	if err := s.o.Local.CheckEpoch(req.Epoch); err != nil {
		done(HashStep{}, err)
		return
	}
	if s.o.View.Topology().Epoch() < req.Since {
		done(HashStep{}, &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown,
			Message: errTopologyUnknown.Error()})
		return
	}
	run(func() {
		// Comparisons of package rebalance have no session: no notice follows them.
		if req.Session != 0 {
			s.begin(req.Session)
		}
		step, err := s.step(req)
		if err != nil {
			err = replica.FromStorage(err)
		}
		done(step, err)
	})
}

// step reads the disk, at most StepBytes of it. The service keeps nothing between two steps of a range: the requester
// passes After.
func (s *Service) step(req *HashRequest) (step HashStep, err error) {
	cmd := &reading.HashCommand{Table: req.Table, Tokens: req.Tokens, Leaves: req.Leaves, Now: req.Now,
		After:    req.After,
		BytesMax: s.o.StepBytes}
	// Writes that were admitted under an older topology must be in storage before they are hashed: a switch is
	// compared only after that. Later steps need not wait again.
	if req.After == nil && req.Since != 0 {
		s.o.Local.Settle()
		if err := s.o.Engine.Drain(); err != nil {
			return step, err
		}
	}
	// The size is needed once, to choose the number of leaves.
	if req.After == nil {
		if step.Size, err = s.o.Engine.SizeOf(req.Table, req.Tokens); err != nil {
			return step, err
		}
	}
	step.Next, step.Scanned, err = s.o.Engine.Hash(cmd, func(i int, h reading.LeafHash) {
		// The rows of a leaf may be in several consecutive parts.
		if n := len(step.Leaves); n > 0 && step.Leaves[n-1] == i {
			step.Hashes[n-1].Add(LeafHash(h))
			return
		}
		step.Leaves, step.Hashes = append(step.Leaves, i), append(step.Hashes, LeafHash(h))
	})
	return step, err
}

// begin records which losses precede a session's first step, before that step reads the disk. It may wait for the disk
// itself.
func (s *Service) begin(session uint64) {
	if _, known := s.lossBefore(session); known {
		return
	}
	// Without mu. Of steps that begin at the same time, the first one records its number: none of them has read yet.
	loss := s.o.Engine.LastLoss()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.mu.losses[session]; known {
		return
	}
	// The oldest session is forgotten: its notice will lift no quarantine.
	if len(s.mu.order) >= sessionsMax {
		delete(s.mu.losses, s.mu.order[0])
		s.mu.order = s.mu.order[1:]
	}
	s.mu.losses[session] = loss
	s.mu.order = append(s.mu.order, session)
	invariant.Check(len(s.mu.order) == len(s.mu.losses) && len(s.mu.order) <= sessionsMax,
		"repair: a session is recorded but not bounded")
}

// lossBefore returns the number of the last loss before the first step of a session. known is false if this node has
// executed no step of it, or has forgotten it.
func (s *Service) lossBefore(session uint64) (loss uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loss, known = s.mu.losses[session]
	return loss, known
}

// repaired records that a range is repaired: storage may purge its older tombstones, and serves rows again that a
// corrupt file had lost before the session began.
func (s *Service) repaired(n *Notice) error {
	loss, known := s.lossBefore(n.Session)
	var err error
	// Files that were lost after the first step of the session may have had rows that the session counted as present.
	if known {
		err = s.o.Engine.Lift(n.Table, n.Tokens, loss)
	}
	if err == nil {
		err = s.o.History.Add(n.Table, n.Tokens, n.Until)
	}
	if err != nil {
		err = replica.FromStorage(err)
	}
	return err
}
