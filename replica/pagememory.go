package replica

import (
	"sync/atomic"

	"cqld/row"
)

// Bounds of the memory of pages that are being read for requests.
const (
	// pageMemoryDefault is what all pages take at once, besides the first pageMemoryFree bytes and at most one row of each:
	// 16 pages of 4 MiB.
	pageMemoryDefault = 64 << 20
	// pageMemoryFree is what a page takes without asking: with 256 workers, 16 MiB in all.
	pageMemoryFree = 64 << 10
)

// pageMemory is the memory that pages have in common. A page that gets no more of it ends early: its reader asks for the
// next one, as for every page that is full.
type pageMemory struct {
	total int64
	used  atomic.Int64
	ended atomic.Int64 // pages that ended early
}

// page is the memory of one page; it is reused.
type page struct {
	all   *pageMemory
	bytes []byte
	cmd   row.ReadCommand
	held  int64
}

// Grow implements row.PageMemory.
func (p *page) Grow(n int) bool {
	more := int64(n) - pageMemoryFree - p.held
	if more <= 0 {
		return true
	}
	if p.all.used.Add(more) > p.all.total {
		p.all.used.Add(-more)
		p.all.ended.Add(1)
		return false
	}
	p.held += more
	return true
}

// freePage gives back what a page has taken.
func (l *Local) freePage(p *page) {
	p.all.used.Add(-p.held)
	p.held, p.cmd = 0, row.ReadCommand{}
	if cap(p.bytes) <= pageKept {
		l.pages.Put(p)
	}
}

// SetPageMemory bounds the memory of pages that are being read at once; zero is the default. It is called before the first
// request.
func (l *Local) SetPageMemory(bytes int64) {
	if bytes > 0 {
		l.memory.total = bytes
	}
}

// PageMemory returns how many bytes pages have taken at the moment, and how many pages have ended early since the start.
func (l *Local) PageMemory() (used, ended int64) { return l.memory.used.Load(), l.memory.ended.Load() }
