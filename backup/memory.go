package backup

import (
	"context"
	"sync/atomic"
)

// Memory is the part of a node's memory for backups, restorations and the archived log. It counts what they use, and
// says how much each may use: sizes and numbers of buffers follow from the bound, so that only copies wait for each
// other, and a restoration keeps neither copies nor the archive waiting. With a bound of P bytes:
//
//	P/4  copies: files that are stored or verified, copyMemory each, at the same time as many as fit
//	P/4  the archived log: a segment as read, with segmentMemory tenths of its size for its compressed form
//	P/2  one restoration: buffers of rows, and parts of files as far as they fit
//
// A restoration of a moment needs Replay and one segment in addition. It exceeds the half in small nodes.
//
// A nil Memory has no bound, and counts nothing. It is safe for concurrent use.
type Memory struct {
	bytes  int64
	used   atomic.Int64
	copies chan struct{} // has an element for each copy in progress
}

// NewMemory returns a part of so many bytes. Below 16 MiB, which is the smallest part of a node, what cannot be smaller
// exceeds it.
func NewMemory(bytes int64) *Memory {
	// At least one copy, so that a backup makes progress.
	return &Memory{bytes: bytes, copies: make(chan struct{}, max(bytes/4/copyMemory, 1))}
}

// Used returns the bytes in use.
func (m *Memory) Used() int64 { return m.used.Load() }

// Charge counts n bytes until end is called, once. It does not wait.
func (m *Memory) Charge(n int64) (end func()) {
	if m == nil {
		return func() {}
	}
	m.used.Add(n)
	return func() { m.used.Add(-n) }
}

// copy waits for the memory of a copy, or until ctx ends. The caller calls end if err is nil. It must hold no memory of
// a copy already: callers that hold one and wait for another would wait for each other.
func (m *Memory) copy(ctx context.Context) (end func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	select {
	case m.copies <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	charged := m.Charge(copyMemory)
	return func() { charged(); <-m.copies }, nil
}

// Segment returns the size of the segments of the log that a node archives, and the memory that one needs until it is
// stored.
func (m *Memory) Segment() (size, needs int64) {
	size = segmentBytes
	if m != nil {
		size = min(max(m.bytes*10/(4*segmentMemory), segmentBytesMin), segmentBytes)
	}
	return size, size * segmentMemory / 10
}

// Replay returns how many bytes of an archived log a restoration collects before it writes them to the disk, and the
// memory that it needs for them. Smaller files would be so many that reading them together takes more memory.
func (m *Memory) Replay() (flush, needs int64) {
	flush = replayBytes
	if m != nil {
		flush = min(max(m.bytes/4/replayMemory, replayBytesMin), replayBytes)
	}
	return flush, flush * replayMemory
}

// chunks returns how many parts of files a restoration keeps, besides the one that is read. Iterators of the storage
// engine read the files of all levels in turns, so that each further part saves requests to the store.
func (m *Memory) chunks() int {
	if m == nil {
		return chunksMax
	}
	// One more part is read, encrypted and decrypted.
	return int(min(max((m.bytes/2-RestoreMemory)/chunkBytes-2, 1), chunksMax))
}
