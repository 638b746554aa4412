package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"cqld/internal/await"
)

// disk is an output in memory. While it is blocked, writes wait; while it fails, they write half of their bytes.
type disk struct {
	mu      sync.Mutex
	content bytes.Buffer
	blocked chan struct{} // nil means not blocked
	entered chan struct{} // receives when a write waits
	failing int           // the number of writes that still fail
	closed  bool
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	blocked, failing := d.blocked, d.failing > 0
	d.mu.Unlock()
	if blocked != nil {
		select {
		case d.entered <- struct{}{}:
		default:
		}
		<-blocked
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if failing {
		d.failing--
		d.content.Write(p[:len(p)/2])
		return len(p) / 2, errors.New("no space left on device")
	}
	d.content.Write(p)
	return len(p), nil
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// entries returns the operations of the lines written.
func (d *disk) entries(t *testing.T) (operations []string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range bytes.Lines(d.content.Bytes()) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		operations = append(operations, fmt.Sprint(e["operation"]))
	}
	return operations
}

func newDisk() *disk { return &disk{entered: make(chan struct{}, 1)} }

func onDisk(d *disk) Options {
	return Options{Host: "127.0.0.1:7000", Logger: slog.New(slog.DiscardHandler),
		open: func(string, *Settings, *slog.Logger) (output, error) { return d, nil }}
}

func testSettings() Settings {
	s := DefaultSettings()
	s.Dir = "unused"
	return s
}

func enabled(t *testing.T, o Options, s Settings) *Log {
	t.Helper()
	l := New(o, s)
	if err := l.Enable(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func numbered(i int) *Entry { return &Entry{Type: Select, Keyspace: "ks", Operation: fmt.Sprint(i)} }

func TestEntriesAreWrittenInOrderAndCompleteWhenClosed(t *testing.T) {
	d := newDisk()
	l := enabled(t, onDisk(d), testSettings())
	for i := range 1000 {
		l.Record(numbered(i))
	}
	l.Close()
	got := d.entries(t)
	for i, operation := range got {
		if operation != fmt.Sprint(i) {
			t.Fatalf("entry %d is %s", i, operation)
		}
	}
	if len(got) != 1000 || !d.closed {
		t.Errorf("%d entries, closed %t", len(got), d.closed)
	}
	l.Record(numbered(0))
	if l.Enabled() || len(d.entries(t)) != 1000 {
		t.Error("a closed log records")
	}
}

func TestFullQueueDropsEntriesAndCountsThem(t *testing.T) {
	d, s := newDisk(), testSettings()
	d.blocked = make(chan struct{})
	s.Block, s.MaxQueueWeight = false, 2000
	l := enabled(t, onDisk(d), s)
	l.Record(numbered(0))
	<-d.entered
	for i := 1; i < 100; i++ {
		l.Record(numbered(i)) // does not block
	}
	stats := l.Stats()
	if stats.Dropped == 0 || stats.Recorded+stats.Dropped != 100 || stats.Queued > s.MaxQueueWeight {
		t.Errorf("%+v", stats)
	}
	close(d.blocked)
	l.Close()
	if n := len(d.entries(t)); int64(n) != stats.Recorded {
		t.Errorf("%d of %d recorded entries written", n, stats.Recorded)
	}
}

func TestFullQueueBlocksRequestsWithoutLosingEntries(t *testing.T) {
	d, s := newDisk(), testSettings()
	d.blocked = make(chan struct{})
	s.MaxQueueWeight = 2000
	l := enabled(t, onDisk(d), s)
	var requests sync.WaitGroup
	for g := range 4 {
		requests.Go(func() {
			for i := range 50 {
				l.Record(numbered(g*50 + i))
			}
		})
	}
	<-d.entered
	await.Until(t, "a request waits for the queue", func() bool { return l.Stats().Waits > 0 })
	if q := l.Stats().Queued; q > s.MaxQueueWeight {
		t.Errorf("%d bytes are queued", q)
	}
	close(d.blocked)
	requests.Wait()
	l.Close()
	if n, stats := len(d.entries(t)), l.Stats(); n != 200 || stats.Dropped != 0 {
		t.Errorf("%d entries, %+v", n, stats)
	}
}

func TestFailedWriteIsRepeatedFromWhereItEnded(t *testing.T) {
	d := newDisk()
	d.failing = 1
	l := enabled(t, onDisk(d), testSettings())
	l.Record(numbered(1))
	await.Until(t, "the write was repeated", func() bool { return l.Stats().Queued == 0 })
	l.Close()
	if got, stats := d.entries(t), l.Stats(); len(got) != 1 || stats.Failures != 1 || stats.Lost != 0 {
		t.Errorf("%v, %+v", got, stats)
	}
}

func TestFailedWriteIsCountedAsLostWithoutBlock(t *testing.T) {
	d, s := newDisk(), testSettings()
	s.Block, d.failing = false, 1
	l := enabled(t, onDisk(d), s)
	l.Record(numbered(1))
	l.Close()
	if stats := l.Stats(); stats.Lost != 1 || stats.Failures != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestClosingDoesNotWaitForAFailingDisk(t *testing.T) {
	d := newDisk()
	d.failing = 1 << 30
	l := enabled(t, onDisk(d), testSettings())
	l.Record(numbered(1))
	l.Close()
	if stats := l.Stats(); stats.Lost != 1 {
		t.Errorf("%+v", stats)
	}
}

// TestAFullQueueCanBeDisabled checks that an operator can let requests continue when the disk has failed.
func TestAFullQueueCanBeDisabled(t *testing.T) {
	d, s := newDisk(), testSettings()
	d.failing, s.MaxQueueWeight = 1<<30, 500
	l := enabled(t, onDisk(d), s)
	var requests sync.WaitGroup
	for i := range 10 {
		requests.Go(func() { l.Record(numbered(i)) })
	}
	await.Until(t, "all have recorded their entries or wait", func() bool {
		stats := l.Stats()
		return stats.Recorded+stats.Waits >= 10
	})
	l.Disable(numbered(10))
	requests.Wait()
	if stats := l.Stats(); stats.Recorded+stats.Dropped != 11 || stats.Lost != stats.Recorded || stats.Dropped == 0 {
		t.Errorf("%+v", stats)
	}
}

func TestSettingsChangeWithoutLosingEntries(t *testing.T) {
	d := newDisk()
	l := enabled(t, onDisk(d), testSettings())
	var done sync.WaitGroup
	done.Go(func() {
		for i := range 2000 {
			l.Record(numbered(i))
		}
	})
	for range 20 {
		if err := l.Enable(testSettings()); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
	l.Close()
	if n, stats := len(d.entries(t)), l.Stats(); int64(n)+stats.Dropped != 2000 {
		t.Errorf("%d entries, %+v", n, stats)
	}
}

func TestDisabledLogCostsNothing(t *testing.T) {
	var none *Log
	off := New(Options{}, testSettings())
	e := numbered(1)
	if n := testing.AllocsPerRun(100, func() {
		none.Record(e)
		off.Record(e)
		_ = none.Enabled() ||
			off.Enabled()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	o := onDisk(newDisk())
	o.open = func(string, *Settings, *slog.Logger) (output, error) { return nothing{}, nil }
	l := enabled(t, o, testSettings())
	e := &Entry{Protocol: "cql", Type: Select, User: "alice", Source: netip.MustParseAddrPort("127.0.0.1:1234"),
		Keyspace: "ks", Scope: "t",
		Operation: "SELECT * FROM ks.t WHERE k = 1"}
	for range 1000 {
		l.Record(e)
	}
	if n := testing.AllocsPerRun(1000, func() { l.Record(e) }); n > 0.5 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }

func BenchmarkRecord(b *testing.B) {
	l := New(Options{open: func(string, *Settings, *slog.Logger) (output, error) { return nothing{}, nil }},
		testSettings())
	if err := l.Enable(testSettings()); err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	e := &Entry{Protocol: "cql", Type: Select, User: "alice", Source: netip.MustParseAddrPort("127.0.0.1:1234"),
		Keyspace: "ks", Scope: "t",
		Operation: "SELECT a, b, c FROM ks.t WHERE k = ? AND c > ? LIMIT 100"}
	b.ReportAllocs()
	for b.Loop() {
		l.Record(e)
	}
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     Settings
		e     Entry
		write bool
	}{
		{"default", DefaultSettings(), Entry{Type: Select, Keyspace: "ks"}, true},
		{"system keyspace", DefaultSettings(), Entry{Type: Select, Keyspace: "system"}, false},
		{"system_views", DefaultSettings(), Entry{Type: Select, Keyspace: "system_views"}, true},
		{"login with included keyspaces", Settings{IncludedKeyspaces: []string{"aud"}},
			Entry{Type: LoginSuccess, User: "u"}, false},
		{"included keyspace", Settings{IncludedKeyspaces: []string{"aud"}}, Entry{Type: Select, Keyspace: "aud"}, true},
		{"included and excluded", Settings{IncludedKeyspaces: []string{"aud"}, ExcludedKeyspaces: []string{"aud"}},
			Entry{Type: Select, Keyspace: "aud"}, false},
		{"category", Settings{IncludedCategories: []string{"query", "AUTH"}}, Entry{Type: LoginError}, true},
		{"other category", Settings{IncludedCategories: []string{"query", "AUTH"}}, Entry{Type: ListRoles}, false},
		{"excluded category", Settings{ExcludedCategories: []string{"PREPARE"}}, Entry{Type: PrepareStatement}, false},
		{"excluded user", Settings{ExcludedUsers: []string{"u"}}, Entry{Type: Select, User: "u"}, false},
		{"included user", Settings{IncludedUsers: []string{"v"}}, Entry{Type: Select, User: "u"}, false},
		{"included role", Settings{IncludedRoles: []string{"ops"}}, Entry{Type: Select, User: "u"}, true},
		{"own role", Settings{IncludedRoles: []string{"v"}}, Entry{Type: Select, User: "v"}, true},
		{"no included role", Settings{IncludedRoles: []string{"ops"}}, Entry{Type: Select, User: "v"}, false},
		{"excluded role", Settings{ExcludedRoles: []string{"ops"}}, Entry{Type: Select, User: "u"}, false},
	} {
		f := newFilter(&c.s, func(user string) []string {
			return map[string][]string{"u": {"ops"}}[user]
		})
		if got := f.passes(c.e.Type, c.e.Keyspace, c.e.User); got != c.write {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestInvalidSettingsAreNamed(t *testing.T) {
	s := Settings{Enabled: true, RollCycle: "WEEKLY", IncludedCategories: []string{"NIX"},
		ExcludedCategories: []string{"query", "NAX"}}
	err := s.Validate()
	for _, want := range []string{"WEEKLY", "NIX", "NAX", "max_queue_weight", "max_log_size", "audit_logs_dir"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	valid := testSettings()
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for class, ok := range map[string]bool{"": true, "BinAuditLogger": true,
		"org.apache.cassandra.audit.FileAuditLogger": true,
		LoggerName: true, "NoOpAuditLogger": false} {
		if _, _, err := ParseLogger(class); (err == nil) != ok {
			t.Errorf("%s: %v", class, err)
		}
	}
}

// TestFilesAreRotatedAndBounded writes more than max_log_size through the real files.
func TestFilesAreRotatedAndBounded(t *testing.T) {
	s := testSettings()
	s.Dir, s.MaxLogSize = filepath.Join(t.TempDir(), "a", "audit"), logBytesMin
	l := enabled(t, Options{Logger: slog.New(slog.DiscardHandler)}, s)
	text := strings.Repeat("x", 16<<10)
	for i := range 500 {
		l.Record(&Entry{Type: Select, Operation: fmt.Sprint(i, " ", text)})
	}
	l.Close()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > fileBytesMin || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes and mode %v", e.Name(), info.Size(), info.Mode())
		}
		total += info.Size()
	}
	if len(entries) < 3 || total > s.MaxLogSize || total < s.MaxLogSize/2 {
		t.Errorf("%d files with %d bytes", len(entries), total)
	}
	last, err := os.ReadFile(filepath.Join(s.Dir, "audit.log"))
	if err != nil || !strings.Contains(string(last), `"operation":"499 `) {
		t.Error("the newest entry is missing", err)
	}
	if dir, err := os.Stat(s.Dir); err != nil || dir.Mode().Perm() != 0o700 {
		t.Error(dir.Mode(), err)
	}
}

func TestUnwritableDirectoryIsReported(t *testing.T) {
	s := testSettings()
	s.Dir = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(s.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(Options{}, s)
	if err := l.Enable(s); err == nil || l.Enabled() {
		t.Error("enabled without a directory")
	}
}

// FuzzEntryIsOneLineOfJSON checks that clients cannot forge entries: whatever text they send, an entry is one line, and
// its fields have the values that were recorded.
func FuzzEntryIsOneLineOfJSON(f *testing.F) {
	for _, s := range []string{"", "SELECT 1", "a\nb", "\r\n{\"user\":\"root\"}", "\x00\x7f\x85\u2028\u0085", "ü\xff",
		`"\`, "<script>"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, operation, user string) {
		line := appendEntry(nil, &Entry{Type: Select, Operation: operation, User: user}, "h", time.Unix(0, 0))
		if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.ContainsAny(line, "\r\x00\u2028\u0085") {
			t.Fatalf("%q is not one line", line)
		}
		var got struct{ Operation, User, Outcome string }
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		valid := func(s string, n int) string { return strings.ToValidUTF8(cut(s, n), "\ufffd") }
		if utf8.ValidString(operation) && got.Operation != valid(operation, operationBytesMax) ||
			got.Outcome != "success" {
			t.Errorf("%q became %q", operation, got.Operation)
		}
		if utf8.ValidString(user) && got.User != valid(user, namesBytesMax) {
			t.Errorf("%q became %q", user, got.User)
		}
	})
}

var _ io.Writer = nothing{}
