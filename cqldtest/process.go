package cqldtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node"
	"cqld/storage/faultfs"
)

// process is one incarnation of a node, from its start to its end. A restarted node has a new one, with a new clock and
// network.
type process struct {
	node    *node.Node
	paused  gate
	clock   *processClock
	network *processNetwork
	native  atomic.Bool // listens for CQL clients
	tables  atomic.Bool // listens for clients of Azure Tables
	// over is closed when the incarnation has ended; watch returns then.
	over  chan struct{}
	watch sync.WaitGroup

	mu    sync.Mutex
	ended bool // the process was stopped or killed
}

// start starts an incarnation of the node. The caller holds changing. After an error, its connections are closed, and
// the disk keeps what was written. The node serves clients later: see serves.
func (n *Node) start(ctx context.Context) (*process, error) {
	p := &process{over: make(chan struct{})}
	p.clock = &processClock{Clock: n.cluster.clock, started: time.Now(), skew: &n.skew, paused: &p.paused}
	p.network = &processNetwork{fabric: n.cluster.fabric, paused: &p.paused,
		open: map[interface{ Close() error }]struct{}{},
		link: func(to netip.AddrPort) *gate { return n.cluster.linkTo(n.index, to) }}
	// A copy for each incarnation: the node keeps what it is given.
	opts := n.opts
	opts.FS, opts.Clock, opts.Network = n.disk(p), p.clock, listening{p.network, n.at, p}
	var err error
	if p.node, err = node.Open(ctx, opts); err != nil {
		p.network.cut()
		return nil, err
	}
	p.watch.Go(func() { n.watch(p) })
	return p, nil
}

// watch records the error of an incarnation that fails. A failure that the test caused by ending the node does not
// count. It ends with the incarnation.
func (n *Node) watch(p *process) {
	select {
	case err := <-p.node.Failed():
		if !p.hasEnded() {
			n.mu.Lock()
			n.failures = append(n.failures, fmt.Errorf("cqldtest: node %d ended by itself: %w", n.index, err))
			n.mu.Unlock()
		}
	case <-p.over:
	}
}

// disk returns the file system of an incarnation. Every operation waits while the node is paused; only reads and syncs
// are delayed.
func (n *Node) disk(p *process) vfs.FS {
	var inner vfs.FS = vfs.Default
	if n.memory != nil {
		inner = n.memory
	}
	fs := faultfs.Wrap(inner)
	fs.Fail(func(op faultfs.Op, _ string) error {
		p.paused.wait(nil) // a pause ends before its process
		if d := time.Duration(n.slow.Load()); d > 0 && (op == faultfs.OpSync || op == faultfs.OpRead) {
			time.Sleep(d)
		}
		return nil
	})
	return fs
}

// listening records which ports the node has opened. The node opens a port only when it is ready for clients of that
// protocol. It stands between the node and its network.
type listening struct {
	*processNetwork
	at addresses
	p  *process
}

// Listen implements messaging.Network.
func (l listening) Listen(at netip.AddrPort) (net.Listener, error) {
	listener, err := l.processNetwork.Listen(at)
	if err == nil {
		switch at {
		case l.at.nativeAt():
			l.p.native.Store(true)
		case l.at.tablesAt():
			l.p.tables.Store(true)
		}
	}
	return listener, err
}

// serves reports whether clients can connect. Ports stay open until the process ends.
func (p *process) serves() bool { return p.native.Load() && p.tables.Load() }

// pause starts a pause, unless the process is ending: nothing would end that pause. A second pause has no effect. It
// returns when new operations wait; operations in progress may still end.
func (p *process) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.paused.shut()
	}
}

// resume ends a pause. The gate opens first, so that timers that are released can use the network. Callbacks of timers
// run before it returns.
func (p *process) resume() {
	p.paused.open()
	p.clock.release()
}

// end marks the process as stopped or killed. From now on, errors of the node are the test's doing.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// hasEnded reports whether the test has ended the incarnation.
func (p *process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// stop drains client requests until ctx ends, and stops the node. A paused node resumes, or it could not drain. Its
// error is the node's.
func (p *process) stop(ctx context.Context) error {
	p.end()
	p.resume()
	err := p.node.Close(ctx)
	p.network.cut()
	close(p.over)
	p.watch.Wait()
	return err
}

// kill ends an incarnation. The network is cut before the state of the disk is captured, so that no later output leaves
// the node. The node is closed afterwards only to end its goroutines: in memory, it works on a disk that is not used
// again. It returns errors of the node's shutdown, except that the drain was cut off.
func (n *Node) kill(p *process) error {
	p.end()
	p.network.cut()
	if n.memory != nil {
		n.memory = n.memory.CrashClone(vfs.CrashCloneCfg{})
	}
	// A context that has ended makes Close drain nothing.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return withoutCanceled(p.stop(ctx))
}

// withoutCanceled removes context.Canceled from joined errors: the canceled context ended the drain, as intended.
// Errors that wrap one other error are not divided.
func withoutCanceled(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	var rest []error
	// Joined errors may be nested, so each part is treated the same way.
	for _, e := range joined.Unwrap() {
		rest = append(rest, withoutCanceled(e))
	}
	return errors.Join(rest...)
}
