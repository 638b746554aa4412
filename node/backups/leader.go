package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/ring"
)

// pollEvery is how often the leader asks the nodes how far they are, and how often it repeats a request that was not
// answered.
const pollEvery = 250 * time.Millisecond

// leader leads one task: it begins steps on all nodes and waits for them.
type leader struct {
	n         *Node
	job, task string
	self      ring.NodeID
	// metadata contains everything that was committed when the task began, and epoch is of the ring's last change.
	metadata *metadata.Metadata
	epoch    uint64
	nodes    []*ring.Node
}

// lead returns the leader of a task on all members. It refuses while a member is down or the ring changes.
func (n *Node) lead(ctx context.Context, job, task string) (*leader, error) {
	m, err := n.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	if len(m.Topology.Operations()) > 0 {
		return nil, errRingChanged
	}
	for _, node := range m.Topology.Nodes() {
		if node.ID != n.o.Cluster.Self() && !n.o.Cluster.Alive(node.ID) {
			return nil, fmt.Errorf("node %s is down: start it, or remove it from the ring, and try again",
				node.Internode)
		}
	}
	return &leader{n: n, job: job, task: task, self: n.o.Cluster.Self(), metadata: m, epoch: m.Topology.Moved(),
		nodes: m.Topology.Nodes()}, nil
}

// confirmed returns metadata that contain everything that was committed before the call.
func (n *Node) confirmed(ctx context.Context) (*metadata.Metadata, error) {
	found := make(chan *metadata.Metadata, 1)
	err := n.awaitFor(ctx, n.o.Limits.Confirm, func(done func()) {
		n.o.Cluster.StartConfirm(func(m *metadata.Metadata) {
			found <- m
			done()
		})
	})
	if err != nil {
		return nil, err
	}
	select {
	case m := <-found:
		return m, nil
	default:
		return nil, errors.New("no majority of the nodes with the metadata answers: start them, and try again")
	}
}

// each performs a request on all nodes, each with its part of the work, and waits until all have ended. progress gets
// the sum over the nodes.
func (l *leader) each(ctx context.Context, r Request, progress func(done, total int64)) error {
	r.Task, r.Job, r.Epoch = l.task, l.job, l.epoch
	// A node to which the request is sent again has begun it once.
	if _, err := l.insist(ctx, r); err != nil {
		return err
	}
	for {
		if err := l.n.sleep(ctx, pollEvery); err != nil {
			return err
		}
		replies, err := l.insist(ctx, Request{Step: Poll, Task: l.task})
		if err != nil {
			return err
		}
		var done, total int64
		// A node that fails ends the step: its part would be missing.
		running := false
		for i, reply := range replies {
			if reply.Error != "" {
				return fmt.Errorf("node %s: %s", l.nodes[i].Internode, reply.Error)
			}
			done, total, running = done+reply.Done, total+reply.Total, running || reply.Running
		}
		progress(done, total)
		if !running {
			return nil
		}
	}
}

// insist asks all nodes, and asks again while a node does not answer, for a while. All requests may be repeated.
func (l *leader) insist(ctx context.Context, r Request) ([]Reply, error) {
	end := l.n.o.Clock.Monotonic() + l.n.o.Limits.Patience
	for {
		replies, err := l.ask(ctx, r)
		if err == nil || refused(err) || l.n.o.Clock.Monotonic() >= end {
			return replies, err
		}
		if err := l.n.sleep(ctx, pollEvery); err != nil {
			return nil, err
		}
	}
}

// ownError is an error of the node that leads.
type ownError struct{ error }

// refused reports whether a node has answered with an error, which it would repeat.
func refused(err error) bool {
	var remote *messaging.RemoteError
	if errors.As(err, &remote) {
		return remote.Code != messaging.CodeOverloaded
	}
	var own ownError
	return errors.As(err, &own)
}

// answer is what a node has answered.
type answer struct {
	of    int    // index in leader.nodes
	bytes []byte // an encoded Reply
	// err is a *messaging.RemoteError or an ownError if the node has refused; otherwise it did not answer.
	err error
}

// ask sends a request to all nodes, and returns their replies in the order of the nodes, or an error when all have
// answered. An error that a node has answered precedes one of its connection.
func (l *leader) ask(ctx context.Context, r Request) ([]Reply, error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	answers := make(chan answer, len(l.nodes))
	// All answers are awaited, so that no node is asked twice at the same time.
	err = l.n.o.Await(ctx, func(done func()) {
		var arrived atomic.Int64
		add := func(a answer) {
			answers <- a
			if arrived.Add(1) == int64(len(l.nodes)) {
				done()
			}
		}
		for i, m := range l.nodes {
			if m.ID == l.self {
				b, err := l.n.Serve(message)
				if err != nil {
					err = ownError{err}
				}
				add(answer{i, b, err})
				continue
			}
			l.n.o.Ask(m.ID, message, func(b []byte, err error) { add(answer{i, b, err}) })
		}
	})
	if err != nil {
		return nil, err
	}
	replies := make([]Reply, len(l.nodes))
	var failed error
	for range l.nodes {
		a := <-answers
		if a.err == nil {
			a.err = json.Unmarshal(a.bytes, &replies[a.of])
		}
		if a.err == nil {
			continue
		}
		if failed == nil || refused(a.err) {
			failed = fmt.Errorf("node %s: %w", l.nodes[a.of].Internode, a.err)
		}
	}
	return replies, failed
}

// end ends the task on all nodes that can be reached, and removes their checkpoints. The others end it when they are no
// longer asked. ctx may have ended.
func (l *leader) end(ctx context.Context) {
	ctx, cancel := l.n.bound(context.WithoutCancel(ctx), endMax)
	defer cancel()
	if _, err := l.ask(ctx, Request{Step: End, Task: l.task}); err != nil {
		l.n.o.Log.Info("a node did not end its part of a backup or restoration", "err", err)
	}
}

// endMax is how long the leader waits for the ends of a task's parts.
const endMax = 10 * time.Second
