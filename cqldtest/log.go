package cqldtest

import (
	"io"
	"log/slog"
	"sync"
)

// logBytesMax is the number of bytes of the log that are kept.
const logBytesMax = 256 << 10

// tail keeps the end of the data written to it. It is safe for concurrent use. It is the writer of all nodes' logs
// unless LogTo is used.
type tail struct {
	mu sync.Mutex
	// buf holds up to twice logBytesMax, so that it is copied only once for each logBytesMax written.
	buf []byte
	// cut is set if the beginning is missing.
	cut bool
}

// Write implements io.Writer. It never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*logBytesMax {
		t.buf = t.buf[:copy(t.buf, t.buf[len(t.buf)-logBytesMax:])]
		t.cut = true
	}
	return len(b), nil
}

// String returns the data kept. A line at the beginning may be cut.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cut {
		return "… (the beginning of the log is not kept)\n" + string(t.buf)
	}
	return string(t.buf)
}

// newLogger returns the logger of node i. Lines of all nodes go to one writer; the attribute cqldtest.node
// distinguishes them. level may be changed while the node runs.
func newLogger(w io.Writer, level slog.Leveler, i int) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})).With("cqldtest.node", i)
}
