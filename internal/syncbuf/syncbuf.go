// Package syncbuf has a buffer for the output of processes and logs in tests. It is needed because os/exec writes from
// a goroutine of its own while the test reads.
package syncbuf

import (
	"bytes"
	"sync"
)

// Buffer collects written bytes. It is safe for concurrent use. The zero value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what has been written so far. Later writes do not change the returned string.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
