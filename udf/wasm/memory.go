package wasm

import (
	"runtime"

	"github.com/tetratelabs/wazero/experimental"
)

// linearMemory is the memory of an instance. It reserves what it allocates for the call that is in progress.
//
// A memory that calls change and that reset restores is a mapping of its own if the pages that a call has touched can
// be found: most calls touch a few pages of a memory of a MiB, and to restore the others takes longer than the call.
// The mapping belongs to the linearMemory until Free. A memory that grows moves to the heap; it is never reset.
type linearMemory struct {
	i *instance
	// The memory as the module sees it. Its capacity is what was reserved.
	b []byte
	// The size, in bytes, to which the memory may grow.
	most uint64
	// The bytes that newInstance has reserved and that are not yet allocated.
	reserved int64

	// Finds touched pages; nil means that the memory is in the heap.
	pages   *pagemap
	mapping []byte // of pages
	// A buffer for pages.touched, so that reset allocates nothing.
	entries []byte
	// Frees the mapping if the collector finds the instance first.
	dropped runtime.Cleanup
}

// Allocate implements experimental.MemoryAllocator.
func (m *linearMemory) Allocate(_, most uint64) experimental.LinearMemory {
	m.most = most
	return m
}

// Reallocate implements experimental.LinearMemory. It returns nil if there is no memory, in which case the call ends
// with an error when it requests further operations or returns.
func (m *linearMemory) Reallocate(size uint64) []byte {
	before := uint64(cap(m.b))
	// Within the capacity: nothing moves, and the bytes are zero.
	if size <= before && m.b != nil {
		m.b = m.b[:size]
		return m.b
	}
	// A memory that grows by pages is copied a bounded number of times.
	next := max(size, min(before+before/2, m.most))
	// Before the allocation. The whole new size: the old memory remains until it is copied.
	if err := m.i.call.Reserve(int64(next) - m.reserved); err != nil {
		m.i.stopped = err
		return nil
	}
	// newInstance has reserved the initial size; it counts once.
	m.reserved = 0
	if m.b == nil && m.pages != nil && size >= mappingMin {
		if m.mapping = m.pages.allocate(int(size)); m.mapping != nil {
			m.b, m.entries = m.mapping, m.pages.entries(m.mapping)
			// The collector frees the idle instances of a pool that is no longer used, and with them their mappings.
			m.dropped = runtime.AddCleanup(m.i, m.pages.free, m.mapping)
			return m.b
		}
	}
	b := make([]byte, size, next)
	// A mapping is copied to the heap when it grows, and stays allocated until Free.
	copy(b, m.b)
	if !m.mapped() { // Free returns a mapping
		m.i.call.Release(int64(before))
	}
	m.b = b
	return b
}

// mapped reports whether the memory is a mapping.
func (m *linearMemory) mapped() bool { return len(m.mapping) > 0 && &m.b[0] == &m.mapping[0] }

// restore restores the parts of the memory that may differ from its initial state. ok is false if they are not known.
func (m *linearMemory) restore(to *initial) (ok bool) {
	return m.mapped() && m.pages.touched(m.mapping, m.entries, func(from, end int) {
		to.restore(m.b, from, end)
	})
}

// used returns bounds within the memory. Outside of them, it is zero.
func (m *linearMemory) used() (from, to int) {
	if len(m.b) == 0 || !m.mapped() {
		return 0, len(m.b)
	}
	from = len(m.b)
	ok := m.pages.touched(m.mapping, m.entries, func(at, end int) { from, to = min(from, at), end })
	if !ok {
		return 0, len(m.b)
	}
	// Without a touched page both are zero.
	return min(from, to), to
}

// bytes returns the size of the memory.
func (m *linearMemory) bytes() int64 {
	if m.b != nil && m.mapped() {
		return int64(len(m.mapping))
	}
	// After growth the mapping remains until Free.
	return int64(cap(m.b) + len(m.mapping))
}

// Free implements experimental.LinearMemory. Further calls have no effect.
func (m *linearMemory) Free() {
	if m.mapping != nil {
		// Otherwise the collector would free the mapping a second time.
		m.dropped.Stop()
		m.pages.free(m.mapping)
	}
	m.b, m.mapping = nil, nil
}
