//go:build !linux

package wasm

// pagemap exists on Linux only. Elsewhere memories are in the heap, and are reset as a whole.
type pagemap struct{}

// openPagemap returns nil: nothing is known about touched pages.
func openPagemap() *pagemap { return nil }

// The methods are never called. They exist so that memory.go compiles on every system.
func (m *pagemap) allocate(int) []byte { return nil }

func (m *pagemap) free([]byte) {}

func (m *pagemap) entries([]byte) []byte { return nil }

func (m *pagemap) touched([]byte, []byte, func(from, to int)) bool { return false }
