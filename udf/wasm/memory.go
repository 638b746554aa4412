package wasm

import "github.com/tetratelabs/wazero/experimental"

// linearMemory is the memory of an instance. It reserves what it allocates for the call that is in progress.
type linearMemory struct {
	i        *instance
	b        []byte
	most     uint64 // bytes
	reserved int64  // bytes that are reserved but not yet allocated
}

// Allocate implements experimental.MemoryAllocator.
func (m *linearMemory) Allocate(_, most uint64) experimental.LinearMemory {
	m.most = most
	return m
}

// Reallocate implements experimental.LinearMemory. It returns nil if there is no memory, in which case the call ends
// with an error when it asks for further operations or returns.
func (m *linearMemory) Reallocate(size uint64) []byte {
	before := uint64(cap(m.b))
	if size <= before && m.b != nil {
		m.b = m.b[:size]
		return m.b
	}
	// A memory that grows by pages is copied a bounded number of times.
	next := max(size, min(before+before/2, m.most))
	if err := m.i.call.Reserve(int64(next) - m.reserved); err != nil {
		m.i.stopped = err
		return nil
	}
	m.reserved = 0
	b := make([]byte, size, next)
	copy(b, m.b)
	m.b = b
	m.i.call.Release(int64(before))
	return b
}

// Free implements experimental.LinearMemory.
func (m *linearMemory) Free() { m.b = nil }
