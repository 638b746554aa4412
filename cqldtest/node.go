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
	"cqld/node/config"
)

// Node is one node of a Cluster. Its methods are safe for concurrent use. Methods that start or end it exclude each
// other; Pause, SlowDisk and SkewClock do not wait for them.
type Node struct {
	cluster *Cluster
	// index counts from 0.
	index int
	at    addresses
	// opts are complete except for the disk, the clock and the network, which each incarnation gets.
	opts config.Options

	// skew and slow apply to the running incarnation and to later ones.
	skew atomic.Int64 // ns
	slow atomic.Int64 // ns added to each read and sync of the disk

	// The lock order is changing, then mu.
	changing sync.Mutex // held while the node starts or ends
	mu       sync.Mutex
	// A paused node has a process.
	process  *process   // nil while the node is stopped
	memory   *vfs.MemFS // nil with OnDisk
	failures []error    // of incarnations that failed
}

// prepare creates the directories of nodes, and refuses those that contain data: the nodes of another cluster have
// other addresses. It does not delete anything.
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

// nodeDir returns the directory of node i inside dir. Index counts from 0.
func nodeDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("node%d", i)) }

// newNode returns a stopped node. Its disk is in memory unless the options name a directory. all contains the addresses
// of all nodes.
func newNode(c *Cluster, i int, all []addresses, o *options) *Node {
	n := &Node{cluster: c, index: i, at: all[i], opts: o.nodeOptions(i, all)}
	n.opts.Logger = newLogger(o.log, n.opts.LogLevel, i)
	if o.dir != "" {
		n.opts.DataDir = nodeDir(o.dir, i)
		return n
	}
	n.memory = vfs.NewCrashableMem()
	n.opts.DataDir, n.opts.Listen.ControlSocket = nodeDir("cqldtest", i), false
	return n
}

// Index returns the node's number in the cluster, counted from zero.
func (n *Node) Index() int { return n.index }

// Datacenter returns the name of the node's data center.
func (n *Node) Datacenter() string { return n.opts.Datacenter }

// Address returns the node's address for CQL clients, as "host:port".
func (n *Node) Address() string { return n.at.nativeAt().String() }

// TablesEndpoint returns the URL of the development account of Azure Tables at this node.
func (n *Node) TablesEndpoint() string {
	return fmt.Sprintf("http://%s/%s", n.at.tablesAt(), azuretables.DevelopmentAccount)
}

// running returns the running incarnation, or nil if the node is stopped. The incarnation may end at any time after the
// call.
func (n *Node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Running reports whether the node is running. A paused node is.
func (n *Node) Running() bool { return n.running() != nil }

// Restart starts the node after Kill or Stop; it does nothing if the node is running. It returns when the node serves
// clients, which needs a majority of the nodes: call it concurrently for several nodes if fewer are running. The node
// keeps its data, its addresses and its identity. If ctx ends while it starts to serve, it continues to run.
//
// A node that failed by itself must be killed first.
func (n *Node) Restart(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	// changing is held, so no other call can start or end it meanwhile.
	if n.Running() {
		return nil
	}
	p, err := n.start(ctx)
	if err != nil {
		return fmt.Errorf("cqldtest: node %d: %w", n.index, err)
	}
	// The process is known before it serves, so that Kill can end it.
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	return awaitNil(ctx, func() error {
		if !p.serves() {
			return fmt.Errorf("node %d does not serve clients yet", n.index)
		}
		return nil
	})
}

// Stop stops the node as SIGTERM does: it drains client requests until ctx ends. A paused node resumes first. It does
// nothing if the node is stopped. A node with requests that do not end is stopped when ctx ends.
func (n *Node) Stop(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	p := n.take()
	if p == nil {
		return nil
	}
	return p.stop(ctx)
}

// Kill ends the node like a crash: it closes the connections and interrupts everything in progress. In memory, the node
// keeps synced data and loses the rest, as in a power failure; acknowledged writes are synced. With OnDisk, it keeps
// everything written.
func (n *Node) Kill() error {
	n.changing.Lock()
	defer n.changing.Unlock()
	p := n.take()
	if p == nil {
		return nil
	}
	return n.kill(p)
}

// end kills the node permanently, and returns the errors of incarnations that failed. Errors of earlier incarnations
// are among them.
func (n *Node) end() error {
	err := n.Kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(append(n.failures, err)...)
}

// take marks the node as stopped, and returns the incarnation that was running. The caller holds changing, and ends the
// incarnation. Nodes that are not running return nil.
func (n *Node) take() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.process
	n.process = nil
	return p
}

// Pause stops the node as SIGSTOP does: it does not use its connections and its disk, and its timers do not fire. Its
// connections stay open, and clients and other nodes may connect but get no response. Requests in progress continue
// until they need one of these. It does nothing for a stopped node.
func (n *Node) Pause() {
	if p := n.running(); p != nil {
		p.pause()
	}
}

// Resume ends a pause. Timers that have expired fire, and the node receives what clients and other nodes have sent. It
// does nothing for a node that is not paused.
func (n *Node) Resume() {
	if p := n.running(); p != nil {
		p.resume()
	}
}

// SlowDisk delays each read and each sync of the node's files by d, also after a restart; zero turns this off.
// Operations that are waiting already keep their delay.
func (n *Node) SlowDisk(d time.Duration) { n.slow.Store(int64(d)) }

// SkewClock sets the error of the node's wall clock to d; zero corrects it. A node whose clock differs from those of
// most others by more than half a second refuses requests. Nodes keep their timeouts: only wall time is wrong.
func (n *Node) SkewClock(d time.Duration) { n.skew.Store(int64(d)) }
