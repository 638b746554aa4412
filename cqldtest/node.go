package cqldtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/azuretables"
	"cqld/node"
)

// Node is one node of a Cluster. Its methods are safe for concurrent use.
type Node struct {
	cluster *Cluster
	index   int
	at      addresses
	opts    node.Options

	skew atomic.Int64 // ns
	slow atomic.Int64 // ns that each disk operation takes longer

	changing sync.Mutex // held while the node starts or ends
	mu       sync.Mutex
	process  *process   // nil while the node is stopped
	memory   *vfs.MemFS // nil with OnDisk
	failures []error    // of incarnations that ended by themselves
}

// prepare makes the directories of nodes, and refuses those that hold data: the nodes of another cluster have other addresses.
func prepare(dir string, nodes int) error {
	for i := range nodes {
		sub := nodeDir(dir, i)
		if entries, err := os.ReadDir(sub); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s holds data of another cluster; use an empty directory", sub)
		}
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func nodeDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("node%d", i)) }

func newNode(c *Cluster, i int, all []addresses, o *options) *Node {
	n := &Node{cluster: c, index: i, at: all[i], opts: o.nodeOptions(i, all)}
	n.opts.Logger = newLogger(o.log, n.opts.LogLevel, i)
	if o.dir != "" {
		n.opts.DataDir = nodeDir(o.dir, i)
		return n
	}
	n.memory = vfs.NewCrashableMem()
	n.opts.DataDir, n.opts.ControlSocket = nodeDir("cqldtest", i), false
	return n
}

// Index returns the node's number in the cluster, counted from zero.
func (n *Node) Index() int { return n.index }

// Address returns where CQL clients reach the node, as "host:port".
func (n *Node) Address() string { return n.at.nativeAt().String() }

// TablesEndpoint returns the URL of the development account of Azure Tables at this node.
func (n *Node) TablesEndpoint() string {
	return fmt.Sprintf("http://%s/%s", n.at.tablesAt(), azuretables.DevelopmentAccount)
}

// running returns the incarnation that runs; nil when the node is stopped.
func (n *Node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Running reports whether the node runs. A paused node does.
func (n *Node) Running() bool { return n.running() != nil }

// Restart starts the node again after Kill or Stop; it does nothing when the node runs. It returns when the node serves clients,
// which needs a majority of the nodes: call it for several nodes at the same time when too few run.
func (n *Node) Restart(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.Running() {
		return nil
	}
	p, err := n.start(ctx)
	if err != nil {
		return fmt.Errorf("cqldtest: node %d: %w", n.index, err)
	}
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	return await(ctx, func() error {
		if !p.serves() {
			return fmt.Errorf("node %d does not serve clients yet", n.index)
		}
		return nil
	})
}

// Stop drains the requests of clients until ctx ends, and stops the node as SIGTERM does. A paused node resumes before.
func (n *Node) Stop(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	p := n.take()
	if p == nil {
		return nil
	}
	return p.stop(ctx)
}

// Kill ends the node as a crash does: connections break, and nothing that the node was doing goes on. In memory, the node keeps
// what was synced and loses the rest, as in a power failure; acknowledged writes are synced. With OnDisk it keeps what it has
// written.
func (n *Node) Kill() error {
	n.changing.Lock()
	defer n.changing.Unlock()
	p := n.take()
	if p == nil {
		return nil
	}
	return n.kill(p)
}

// end kills the node for good, and returns the errors of incarnations that ended by themselves.
func (n *Node) end() error {
	err := n.Kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(append(n.failures, err)...)
}

// take makes the node stopped, and returns what ran.
func (n *Node) take() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.process
	n.process = nil
	return p
}

// Pause stops the node as SIGSTOP does: it reads and writes neither its connections nor its disk, and its timers do not fire.
// Its connections stay open, and clients and other nodes may connect without an answer. Requests that are being executed go on
// until they need one of these.
func (n *Node) Pause() {
	if p := n.running(); p != nil {
		p.pause()
	}
}

// Resume ends a pause. Timers that were due fire, and what clients and other nodes have sent is received.
func (n *Node) Resume() {
	if p := n.running(); p != nil {
		p.resume()
	}
}

// SlowDisk makes each read and each sync of the node's files take d longer, also after a restart; zero ends that.
func (n *Node) SlowDisk(d time.Duration) { n.slow.Store(int64(d)) }

// SkewClock makes the node's wall clock wrong by d; zero makes it right. A node whose clock differs from those of most others by
// more than half a second refuses requests.
func (n *Node) SkewClock(d time.Duration) { n.skew.Store(int64(d)) }
