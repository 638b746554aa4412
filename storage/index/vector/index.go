package vector

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"cqld/types/similarity"
)

// Options configure an Index. Zero values mean the defaults.
type Options struct {
	Dimensions int // required
	// How vectors are compared. It cannot change later: the graph depends on it.
	Function    similarity.Function
	Connections int // links of a node on each level above the lowest, which has twice as many
	Beam        int // candidates that an insertion considers
	Exact       int // vectors up to which searches compare all of them
	// Equal seeds and equal sequences of calls make equal graphs.
	Seed uint64 // of the levels of nodes
}

// Index maps keys to vectors and finds the nearest ones. All methods may be called concurrently.
type Index struct {
	o Options

	// The table of nodes by slot. Readers load it without the lock; it grows by a copy with another chunk.
	chunks atomic.Pointer[[]*chunk] // every node that is not yet unlinked
	entry  atomic.Pointer[node]     // where searches begin; has the highest level
	// live counts the nodes that are not deleted, and bytes estimates the memory of all nodes in slots.
	live  atomic.Int64
	bytes atomic.Int64
	pool  sync.Pool // of *visited

	mu sync.Mutex // held by writers; guards all below
	// The node of each key that is alive.
	keys  map[string]*node
	slots uint32   // of chunks that were used
	free  []uint32 // slots that are empty
	// The state of the generator that draws levels, see level.
	random uint64
	repair repair
}

// chunk is a part of the table of nodes. Chunks are never moved, so a slot can be loaded while the table grows.
type chunk [chunkSize]atomic.Pointer[node]

// node is a vector in the graph. Only its links and state change.
type node struct {
	point
	key string
	// The position in the table of nodes. The number is reused after the node was released.
	slot  uint32
	state atomic.Uint32
	// The neighbours by level; level 0 is the lowest and contains every node. A list is immutable: a writer stores
	// another one.
	links []atomic.Pointer[[]*node]
}

// The states of a node, in their order.
const (
	alive    = iota
	ghost    // deleted: searches pass through it, and do not yield it
	released // unlinked: its slot may have another node
)

// dead reports whether the key of the node was deleted, or has another vector since.
func (n *node) dead() bool { return n.state.Load() != alive }

// at returns the links on a level, which must not be changed; nil if the node is not on that level, or was released.
func (n *node) at(level int) []*node {
	if level >= len(n.links) {
		return nil
	}
	if l := n.links[level].Load(); l != nil {
		return *l
	}
	return nil
}

// ErrIncomparable is the error of Set for a vector that has no score: with an element that is not a finite number, or
// the zero vector with the cosine.
var ErrIncomparable = errors.New("vector: not comparable")

// New returns an empty index.
func New(o Options) *Index {
	if o.Connections == 0 {
		o.Connections = defaultConnections
	}
	if o.Beam == 0 {
		o.Beam = defaultBeam
	}
	if o.Exact == 0 {
		o.Exact = defaultExact
	}
	x := &Index{o: o, keys: map[string]*node{}, random: o.Seed}
	x.chunks.Store(new([]*chunk))
	return x
}

// Check returns the error of Set for a vector. It takes no lock.
func (x *Index) Check(v []float32) error {
	if len(v) != x.o.Dimensions {
		return fmt.Errorf("vector: %d dimensions, expected %d", len(v), x.o.Dimensions)
	}
	if !x.o.Function.Comparable(v) {
		return ErrIncomparable
	}
	return nil
}

// Set inserts a key, or replaces its vector, which it copies. A search that runs sees the old vector, the new one,
// both, or neither. Setting the vector that the key already has changes nothing, so that running searches still find
// the key. An error leaves the index as it was.
func (x *Index) Set(key string, v []float32) error {
	if err := x.Check(v); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.keys[key]
	// A running search may have passed the new node's slot, and would then miss the key if the old node died.
	if old != nil && slices.Equal(old.vector, v) {
		return nil
	}
	// The new node is reachable before the old one is deleted, so that a search that begins meanwhile finds at least
	// one.
	n := &node{key: key, point: pointOf(x.o.Function, slices.Clone(v)),
		links: make([]atomic.Pointer[[]*node], 1+x.level())}
	x.place(n)
	x.link(n)
	x.keys[key] = n
	x.live.Add(1)
	if old != nil {
		x.bury(old)
	}
	// Each write pays for a part of the pass that unlinks deleted nodes; there is no goroutine for it.
	x.unlink()
	return nil
}

// Delete removes a key and reports whether it was there. Searches that have met the key do not yield it afterwards.
func (x *Index) Delete(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.keys[key]
	if n == nil {
		return false
	}
	delete(x.keys, key)
	x.bury(n)
	x.unlink()
	return true
}

// Has reports whether a key is in the index.
func (x *Index) Has(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.keys[key] != nil
}

// Len returns the number of keys. It is read without the lock, so it may lack changes that are being made.
func (x *Index) Len() int { return int(x.live.Load()) }

// Bytes estimates the memory of the index.
func (x *Index) Bytes() int64 { return x.bytes.Load() }

// size estimates the memory of a node, with full lists of links.
func (x *Index) size(n *node) int64 {
	const pointer = int64(unsafe.Sizeof(n))
	const inMap = 4 * pointer // the entry in keys, and room that the map keeps free
	links := int64(x.capacity(0)+x.capacity(1)*(len(n.links)-1)) * pointer
	return int64(unsafe.Sizeof(*n)) + inMap + pointer + int64(len(n.key)+4*len(n.vector)) + links
}

// level draws the highest level of a node, with probability 1/Connections for each further one. With 16 connections, 15
// of 16 nodes are on the lowest level only.
func (x *Index) level() int {
	x.random += 0x9e3779b97f4a7c15 // SplitMix64
	z := x.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	// uniform is in (0, 1], because the logarithm of 0 would be infinite.
	uniform := (float64((z^z>>31)>>11) + 1) / (1 << 53)
	return min(int(-math.Log(uniform)/math.Log(float64(max(x.o.Connections, 2)))), maxLevel)
}

// place puts a node into a slot.
func (x *Index) place(n *node) {
	// The slots of released nodes come first, so that the table does not grow while keys are replaced.
	if last := len(x.free) - 1; last >= 0 {
		n.slot, x.free = x.free[last], x.free[:last]
	} else {
		n.slot = x.slots
		x.slots++
		if chunks := *x.chunks.Load(); int(n.slot/chunkSize) == len(chunks) {
			// The full slice expression forces a copy, because readers may have the old table.
			grown := append(chunks[:len(chunks):len(chunks)], new(chunk))
			x.chunks.Store(&grown)
		}
	}
	x.slot(n.slot).Store(n)
	x.bytes.Add(x.size(n))
}

// slot returns the entry of the table for a slot that was used.
func (x *Index) slot(i uint32) *atomic.Pointer[node] {
	return &(*x.chunks.Load())[i/chunkSize][i%chunkSize]
}
