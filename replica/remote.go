package replica

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// Remote is another node's replica, reached through a messaging.Transport.
//
// It has no state of its own. Each call is one request.
type Remote struct {
	node      ring.NodeID
	transport messaging.Transport
	view      coordinator.View
}

var _ coordinator.Remote = (*Remote)(nil)

// NewRemote returns the replica of node.
func NewRemote(node ring.NodeID, transport messaging.Transport, view coordinator.View) *Remote {
	return &Remote{node: node, transport: transport, view: view}
}

// AppendMutations implements coordinator.Remote.
func (r *Remote) AppendMutations(dst []byte, epoch uint64, mutations []*row.Mutation) []byte {
	return appendMutations(dst, epoch, mutations)
}

// ApplyEncoded implements coordinator.Remote.
func (r *Remote) ApplyEncoded(purpose coordinator.Purpose, request []byte, timeout time.Duration, done func(error)) {
	// The receiver handles all three verbs alike (Serve).
	verb := messaging.VerbMutation
	switch purpose {
	case coordinator.ForReadRepair:
		verb = messaging.VerbReadRepair
	case coordinator.ForHint:
		verb = messaging.VerbHint
	}
	r.transport.Request(r.node, verb, request, timeout, func(_ []byte, err error) { done(FromRemote(err)) })
}

// Apply implements coordinator.Replica.
func (r *Remote) Apply(epoch uint64, mutations []*row.Mutation, timeout time.Duration, done func(error)) {
	r.ApplyEncoded(coordinator.ForWrite, appendMutations(nil, epoch, mutations), timeout, done)
}

// AppendRead implements coordinator.Remote.
func (r *Remote) AppendRead(dst []byte, epoch uint64, cmd *row.ReadCommand) []byte {
	return appendRead(dst, epoch, cmd)
}

// ReadEncoded implements coordinator.Remote.
func (r *Remote) ReadEncoded(request []byte, timeout time.Duration, cancel *env.Cancel,
	done func(page []byte, err error)) {
	messaging.RequestCancelable(r.transport, r.node, messaging.VerbRead, request, timeout, cancel,
		func(page []byte, err error) {
			if err != nil {
				done(nil, FromRemote(err))
				return
			}
			done(page, nil)
		})
}

// DigestEncoded implements coordinator.Remote.
func (r *Remote) DigestEncoded(request []byte, timeout time.Duration, cancel *env.Cancel,
	done func(row.Digest, error)) {
	messaging.RequestCancelable(r.transport, r.node, messaging.VerbDigest, request, timeout, cancel,
		func(payload []byte, err error) {
			var d row.Digest
			switch {
			case err != nil:
				err = FromRemote(err)
			// The length is the only check of a digest.
			case len(payload) != len(d):
				err = errBadDigest
			default:
				copy(d[:], payload)
			}
			done(d, err)
		})
}

var errBadDigest = errors.New("replica: a digest has the wrong length")

// Read implements coordinator.Replica.
func (r *Remote) Read(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error)) {
	r.ReadEncoded(appendRead(nil, epoch, cmd), timeout, cmd.Cancel, done)
}

// Digest implements coordinator.Replica.
func (r *Remote) Digest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error)) {
	r.DigestEncoded(appendRead(nil, epoch, cmd), timeout, cmd.Cancel, done)
}

// Truncate implements coordinator.Replica.
func (r *Remote) Truncate(epoch uint64, t coordinator.Truncation, timeout time.Duration, done func(error)) {
	r.transport.Request(r.node, messaging.VerbTruncate, appendTruncate(nil, epoch, t, timeout), timeout,
		func(_ []byte, err error) { done(FromRemote(err)) })
}
