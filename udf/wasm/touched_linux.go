package wasm

import (
	"encoding/binary"
	"os"
	"syscall"
	"unsafe"
)

// pagemap finds the pages of private mappings that the process has touched since it mapped them. The kernel knows them
// from the page tables: an untouched page has no entry. See "pagemap" in the kernel's documentation. It is safe for
// concurrent use.
type pagemap struct {
	// /proc/self/pagemap, which is read at offsets only.
	file *os.File
	page int // bytes
}

// pagemapEntry is the size of the entry of a page. The upper bits of an entry are set for a page that is in memory or
// in swap.
const (
	pagemapEntry   = 8
	pagemapTouched = 1<<63 | 1<<62
)

// openPagemap returns nil if the kernel does not permit it, or if what it reports about three pages is wrong: then
// memories are reset as a whole.
func openPagemap() *pagemap {
	file, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	m := &pagemap{file: file, page: os.Getpagesize()}
	if !m.works() {
		_ = file.Close()
		return nil
	}
	return m
}

// works reports whether one touched page of three is found, and no other.
func (m *pagemap) works() bool {
	b := m.allocate(3 * m.page)
	if b == nil {
		return false
	}
	defer m.free(b)
	// The middle page: neighbors that are reported too would be noticed.
	b[m.page+1] = 1
	var found []span
	ok := m.touched(b, m.entries(b), func(from, to int) {
		found = append(found,
			span{uint32(from), uint32(to - from)})
	})
	return ok && len(found) == 1 && found[0] == span{uint32(m.page), uint32(m.page)}
}

// allocate returns n bytes of zeros outside of the heap, which free must be called for, or nil. No page of them is
// touched.
func (m *pagemap) allocate(n int) []byte {
	// Private and anonymous: the kernel gives zeros, and no page before it is touched.
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil
	}
	_ = syscall.Madvise(b, syscall.MADV_NOHUGEPAGE) // a touched page would touch those around it
	return b
}

// free returns memory of allocate.
func (m *pagemap) free(b []byte) { _ = syscall.Munmap(b) }

// entries returns a buffer for touched.
func (m *pagemap) entries(b []byte) []byte { return make([]byte, len(b)/m.page*pagemapEntry) }

// touched calls f for the parts of memory from allocate that may differ from zero. ok is false if the kernel did not
// answer; f was not called then.
func (m *pagemap) touched(b, entries []byte, f func(from, to int)) (ok bool) {
	// The file has an entry for each page of the address space, in order.
	first := int64(uintptr(unsafe.Pointer(&b[0]))) / int64(m.page)
	n, err := m.file.ReadAt(entries, first*pagemapEntry)
	if err != nil || n != len(b)/m.page*pagemapEntry {
		return false
	}
	for i := 0; i < n; i += pagemapEntry {
		// Two bits of the entry: in memory, or swapped out.
		if binary.NativeEndian.Uint64(entries[i:])&pagemapTouched != 0 {
			at := i / pagemapEntry * m.page
			f(at, at+m.page)
		}
	}
	return true
}
