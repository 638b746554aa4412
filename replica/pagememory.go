package replica

import (
	"sync/atomic"

	"cqld/row"
)

// Bounds of the memory of pages that are being read for requests.
const (
	// pageMemoryDefault bounds the memory of all pages at once, except for the first pageMemoryFree bytes and at most one row
	// of each: 16 pages of 4 MiB.
	pageMemoryDefault = 64 << 20
	// pageMemoryFree is the size up to which a page needs no reservation: with 256 workers, 16 MiB in all.
	pageMemoryFree = 64 << 10
)

// pageMemory is the memory shared by all pages. A page that gets no more memory ends early: its reader requests the next one,
// as after every full page.
type pageMemory struct {
	total int64
	used  atomic.Int64
	ended atomic.Int64 // pages that ended early
}

// page accounts for the memory of one page; it is reused.
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

// freePage returns the memory of a page.
func (l *Local) freePage(p *page) {
	p.all.used.Add(-p.held)
	p.held, p.cmd = 0, row.ReadCommand{}
	if cap(p.bytes) <= pageKept {
		l.pages.Put(p)
	}
}

// SetPageMemory bounds the memory of all pages that are being read; zero means the default. It is called before the first
// request.
func (l *Local) SetPageMemory(bytes int64) {
	if bytes > 0 {
		l.memory.total = bytes
	}
}

// PageMemory returns the bytes presently used by pages, and the number of pages that have ended early since the start.
func (l *Local) PageMemory() (used, ended int64) { return l.memory.used.Load(), l.memory.ended.Load() }
