package audit

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is one event. It must not contain secrets. Empty fields are omitted from the line. User, Keyspace and Scope
// are cut at namesBytesMax, Error at errorBytesMax.
type Entry struct {
	// Protocol is cql, tables or control.
	Protocol string
	Type     Type
	// User is the role that the client logged in as, or tried to; for Azure Tables the account.
	User string
	// Source is the client's address; the zero value means that it has none, such as a client of the control socket.
	Source netip.AddrPort
	// Keyspace and Scope are taken from a Subject, or name an object of Azure Tables.
	Keyspace string
	Scope    string
	// Operation is the text of the statement or the request. Texts longer than operationBytesMax are cut.
	Operation string
	// Batch is the id that the statements of a batch share.
	Batch string
	// Error is why the operation failed.
	Error string
}

// Options configure a Log.
type Options struct {
	// Host identifies this node in its entries.
	Host   string
	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil means slog.Default()
	// Go runs the writer in a goroutine, which ends before Disable and Close return. nil means a go statement.
	Go func(func())
	// RolesOf returns the roles that a user has, for the options about roles. nil means that users have no roles
	// besides their own.
	RolesOf func(user string) []string
	// open opens the files; nil means openFiles.
	open func(dir string, s *Settings, log *slog.Logger) (output, error)
}

// Log is the audit log of a node. It is safe for concurrent use. A nil Log is always disabled.
type Log struct {
	o Options
	// active is nil while the log is disabled. Requests load it without a lock.
	active atomic.Pointer[writer]
	// buffers contains *[]byte, into which requests encode entries.
	buffers sync.Pool
	// All writers share stats, so the counts never restart.
	stats counters

	mu struct {
		// The mutex is held while the log is enabled or disabled, which may take long. Requests do not lock it.
		sync.Mutex
		settings Settings
		closed   bool
	}
}

// counters are the counts of Stats. They are shared by all writers of a Log.
type counters struct{ recorded, filtered, dropped, lost, failures, bytes, waits atomic.Int64 }

// Stats are the counts of entries since the node started.
type Stats struct {
	// Recorded counts entries that entered the queue.
	Recorded int64
	// Filtered counts entries that the options exclude. It does not count entries that callers did not build because
	// Wants reported false.
	Filtered int64
	// Dropped counts entries that found the queue full, with block: false, or the log closing.
	Dropped int64
	// Lost counts entries that left the queue and could not be written.
	Lost int64
	// Failures counts failed writes, even if a retry succeeded.
	Failures int64
	// Waits counts entries that waited for the queue.
	Waits int64
	// Bytes is the number of bytes written.
	Bytes int64
	// Queued is the number of bytes in the queue now.
	Queued int64
}

// New returns a disabled Log with the given settings for Enable. Nothing is written before Enable.
func New(o Options, s Settings) *Log {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	if o.open == nil {
		o.open = openFiles
	}
	l := &Log{o: o}
	l.mu.settings = s.clone()
	// Settings must report the current state, although s may have Enabled set.
	l.mu.settings.Enabled = false
	l.buffers.New = func() any { return new([]byte) }
	return l
}

// Enabled reports whether entries are recorded. It costs one load.
func (l *Log) Enabled() bool { return l != nil && l.active.Load() != nil }

// Wants reports whether an entry with these properties would be written, so that callers need not build others. Record
// filters again, so the answer need not be kept until then.
func (l *Log) Wants(t Type, keyspace, user string) bool {
	if l == nil {
		return false
	}
	w := l.active.Load()
	return w != nil && w.filter.passes(t, keyspace, user)
}

// Record writes an entry, if the log is enabled and its options include the entry. It waits for the queue if the
// options say so, and otherwise never blocks. The entry may be reused after the call. Callers record after the
// operation and before the response, so when a client receives its response, the entry is in the queue (ADR 33).
func (l *Log) Record(e *Entry) {
	if l == nil {
		return
	}
	w := l.active.Load()
	if w == nil {
		return
	}
	if !w.filter.passes(e.Type, e.Keyspace, e.User) {
		l.stats.filtered.Add(1)
		return
	}
	// The entry is encoded outside of the queue's lock, and add copies it.
	p := l.buffers.Get().(*[]byte)
	*p = appendEntry((*p)[:0], e, l.o.Host, l.o.Now())
	w.add(*p)
	// Do not pool the large buffer of a long statement.
	if cap(*p) <= bufferKeep {
		l.buffers.Put(p)
	}
}

// Enable starts to record with the given settings. If the log is enabled already, entries recorded with the previous
// settings are written first. After an error the log is unchanged. After Close, Enable has no effect.
func (l *Log) Enable(s Settings) error {
	s = s.clone()
	s.Enabled = true
	if err := s.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The node is stopping, which is not an error of the operator.
	if l.mu.closed {
		return nil
	}
	out, err := l.o.open(s.Dir, &s, l.o.Logger)
	if err != nil {
		return err
	}
	l.mu.settings = s
	w := newWriter(out, &s, newFilter(&s, l.o.RolesOf), &l.stats, l.o.Logger)
	if old := l.active.Swap(w); old != nil {
		old.close() // meanwhile, entries wait in the new queue
	}
	// Start the new writer only now, because two writers must not write and rotate the same file.
	l.o.Go(w.run)
	return nil
}

// Disable stops to record, and returns when all recorded entries are written, or could not be. last, unless nil, is
// added even if the queue is full, so that the log records who disabled it.
func (l *Log) Disable(last *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.active.Load(); w != nil && last != nil {
		// This entry is rare, and needs no pooled memory. It is not filtered.
		w.force(appendEntry(nil, last, l.o.Host, l.o.Now()))
	}
	l.stopLocked()
}

// Close disables the log permanently.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	l.mu.closed = true
}

// stopLocked ends the writer, if there is one. Requests that have loaded it before may still add entries; these are
// dropped and counted. l.mu is held.
func (l *Log) stopLocked() {
	if w := l.active.Swap(nil); w != nil {
		w.close()
	}
	l.mu.settings.Enabled = false
}

// Settings returns the current settings. While the log is disabled, they are the last ones that Enable set. The caller
// owns the result.
func (l *Log) Settings() Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.settings.clone()
}

// Stats returns the counts of entries. The counts are read one after the other, and may not agree with each other
// exactly.
func (l *Log) Stats() Stats {
	c := &l.stats
	s := Stats{Recorded: c.recorded.Load(), Filtered: c.filtered.Load(), Dropped: c.dropped.Load(), Lost: c.lost.Load(),
		Failures: c.failures.Load(), Waits: c.waits.Load(), Bytes: c.bytes.Load()}
	if w := l.active.Load(); w != nil {
		s.Queued = w.queuedBytes()
	}
	return s
}
