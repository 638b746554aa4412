package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

// ledger is a Maintainer with one entry for each stored key of the tables that it maintains.
type ledger struct {
	host *Host
	// ignored is the event that it passes over, as a maintainer does that the engine does not call.
	ignored string
	seen    map[string]int
	// calls counts Enter minus Settle.
	calls int
	fails []string
}

func newLedger(ignored string) *ledger { return &ledger{ignored: ignored, seen: map[string]int{}} }

// plainTable is not maintained.
const plainTable = testTable + 1

func (l *ledger) Space() KeySpace { return KeySpace{Entries: 0x10, Marks: 'x'} }

func (l *ledger) Open(h *Host) error {
	l.host = h
	return nil
}

func (l *ledger) Maintains(id schema.StorageID) bool { return id != plainTable }

func (l *ledger) sees(event string) bool {
	l.seen[event]++
	return event != l.ignored
}

func entryOf(table schema.StorageID, k row.PartitionKey, kind row.EntryKind, clustering []byte) []byte {
	return append(append(rowkey.AppendPartition(nil, table, k)[rowkey.TableSize:], byte(kind)), clustering...)
}

func (l *ledger) Enter(d Derived, in *Entering) {
	l.calls++
	if l.sees("enter") {
		l.add(d, in)
	}
}

func (l *ledger) add(d Derived, in *Entering) {
	var x Entered
	for in.Next(&x) {
		if !l.Maintains(x.Table) {
			l.fails = append(l.fails, "a row of a table that is not maintained")
		}
		if err := row.ValidateRow(x.Value); err != nil {
			l.fails = append(l.fails, err.Error())
		}
		d.Set(x.Table, entryOf(x.Table, x.Key, x.Kind, x.Clustering), nil)
	}
}

func (l *ledger) Settle(in *Entering, err error) {
	l.calls--
	var x Entered
	if err == nil && !in.Next(&x) {
		l.fails = append(l.fails, "a commit without rows")
	}
}

func (l *ledger) Stage(d Derived, in *Entering) {
	if l.sees("stage") {
		l.add(d, in)
	}
}

func (l *ledger) Ingest(_ Derived, table schema.StorageID, staged bool, commit func() error) error {
	if l.seen["ingest"]++; staged != l.Maintains(table) {
		l.fails = append(l.fails, "the entries of an ingestion are staged if its table is maintained")
	}
	return commit()
}

func (l *ledger) Purge(d Derived, p *Purged) {
	if p.Kind == row.KindRow {
		key := append(rowkey.AppendPartition(nil, p.Table, p.Key), byte(p.Kind))
		stored, closer, err := l.host.e.db.Get(append(key, p.Clustering...))
		if err != nil || !bytes.Equal(stored, p.Before) {
			l.fails = append(l.fails, fmt.Sprintf("before %x, but %x is stored, %v", p.Before, stored, err))
		}
		if err == nil {
			_ = closer.Close()
		}
	}
	if !l.sees("purge") {
		return
	}
	if key := entryOf(p.Table, p.Key, p.Kind, p.Clustering); p.After == nil {
		d.Delete(p.Table, key)
	} else {
		d.Set(p.Table, key, nil)
	}
}

// Emptied checks that nothing is left of the partition.
func (l *ledger) Emptied(_ Derived, table schema.StorageID, k row.PartitionKey) {
	l.seen["emptied"]++
	prefix := rowkey.AppendPartition(nil, table, k)
	end := append(prefix[:len(prefix):len(prefix)], rowkey.KindEnd)
	if empty, err := l.host.e.db.Empty(prefix, end); !empty || err != nil {
		l.fails = append(l.fails, fmt.Sprintf("partition %x is not empty, %v", k.Bytes, err))
	}
}

func (l *ledger) Remove(d Derived, table schema.StorageID, tokens ring.Range) {
	if !l.sees("remove") {
		return
	}
	for _, r := range tokens.Unwrap() {
		if lower, upper, ok := rowkey.Bounds(nil, nil, table, r); ok {
			end := upper[rowkey.TableSize:]
			if len(end) == 0 {
				end = nil
			}
			d.DeleteRange(table, lower[rowkey.TableSize:], end)
		}
	}
}

func (l *ledger) Drop(Derived, schema.StorageID) { l.seen["drop"]++ }

// LoseEntries builds all entries again.
func (l *ledger) LoseEntries(_, _ []byte, remove func() error) error {
	err := remove()
	if !l.sees("lose") {
		return err
	}
	l.host.Latched(func() {
		err = errors.Join(err, l.host.Write(true, func(d Derived) error {
			tables, err := l.host.e.Tables()
			for _, id := range slices.DeleteFunc(tables, func(id schema.StorageID) bool { return !l.Maintains(id) }) {
				d.DeleteRange(id, nil, nil)
				err = errors.Join(err, l.host.e.db.Scan(rowkey.AppendTable(nil, id), func(key, _ []byte) error {
					d.Set(id, key[rowkey.TableSize:], nil)
					return nil
				}))
			}
			return err
		}))
	})
	return err
}

// check compares the entries with the keys that are stored.
func (l *ledger) check() (differences []string) {
	e := l.host.e
	stored, entries := map[string]bool{}, map[string]bool{}
	tables, err := e.Tables()
	for _, id := range tables {
		err = errors.Join(err, e.db.Scan(rowkey.AppendTable(nil, id), func(key, _ []byte) error {
			if l.Maintains(id) {
				stored[string(key)] = true
			}
			return nil
		}))
	}
	err = errors.Join(err, e.db.Scan(append(rowkey.AppendTable(nil, 0), l.Space().Entries), func(key, _ []byte) error {
		entries[string(key[rowkey.TableSize+1:])] = true
		return nil
	}))
	if err != nil {
		return []string{err.Error()}
	}
	for k := range stored {
		if !entries[k] {
			differences = append(differences, fmt.Sprintf("no entry of %x", k))
		}
	}
	for k := range entries {
		if !stored[k] {
			differences = append(differences, fmt.Sprintf("an entry of %x, which is not stored", k))
		}
	}
	if l.calls != 0 {
		differences = append(differences, "Enter without Settle")
	}
	return append(differences, l.fails...)
}

// maintainedMeta is a randomized run that takes every path on which rows enter, leave or move.
type maintainedMeta struct {
	*meta
	ledger  *ledger
	ignored string
	seen    map[string]int
	extra   schema.StorageID // is dropped now and then
}

func (m *maintainedMeta) open() {
	if m.ledger != nil {
		for event, n := range m.ledger.seen {
			m.seen[event] += n
		}
	}
	m.ledger = newLedger(m.ignored)
	m.opts.FS, m.opts.Maintainers = m.disk, []Maintainer{m.ledger}
	m.engine = openTest(m.t, m.opts)
}

func (m *maintainedMeta) table() schema.StorageID {
	return []schema.StorageID{testTable, testTable, plainTable, m.extra}[m.rng.IntN(4)]
}

func (m *maintainedMeta) mutation() *row.Mutation {
	out := m.meta.mutation()
	if table := m.table(); table != out.Table {
		again := new(row.Mutation)
		again.Reset(table, out.Key)
		r := row.NewRow()
		r.Clustering = m.clustering()
		m.row(r)
		again.AddRow(r)
		return again
	}
	return out
}

func (m *maintainedMeta) tokens() ring.Range {
	tokens := []ring.Token{ring.MinToken, ring.MinToken + 1, -6, -5, 0, 7, ring.MaxToken - 1, ring.MaxToken}
	return ring.Range{Start: tokens[m.rng.IntN(len(tokens))], End: tokens[m.rng.IntN(len(tokens))]}
}

func (m *maintainedMeta) step() {
	switch n := m.rng.IntN(100); {
	case n < 60:
		durable := m.rng.IntN(3) > 0
		ms := make([]*row.Mutation, 1+m.rng.IntN(4))
		for i := range ms {
			ms[i] = m.mutation()
		}
		done := make(chan error, 1)
		mustTake(m.t, m.engine, ms, durable, func(err error) { done <- err })
		m.check("apply", <-done)
	case n < 66:
		m.ingest()
	case n < 76:
		m.clock.advance(time.Duration(m.rng.IntN(60)) * time.Second)
		for wrapped, err := false, error(nil); !wrapped && err == nil; {
			wrapped, err = m.engine.Sweep(1 + m.rng.IntN(40))
			m.check("sweep", err)
		}
	case n < 79:
		m.check("truncate", m.engine.Truncate(m.table()))
	case n < 84:
		m.check("drop range", m.engine.DropRange(m.table(), m.tokens()))
	case n < 86:
		m.check("drop table", m.engine.DropTable(m.extra))
		m.extra++
	case n < 90:
		m.lose()
	case n < 93:
		m.check("flush", m.engine.Flush())
	case n < 95:
		_, err := m.engine.Read(nil, m.command())
		m.check("read", err)
	default:
		m.restart(m.rng.IntN(2) == 0)
	}
	for _, d := range m.ledger.check() {
		m.t.Error(d)
	}
}

// restart closes and opens the engine, perhaps after a power failure that removed a part of the unsynced data.
func (m *maintainedMeta) restart(crash bool) {
	disk := m.disk
	if crash {
		disk = m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.rng.IntN(101), RNG: m.rng})
	}
	m.check("close", m.engine.Close())
	m.disk = disk
	m.open()
}

// ingest brings what another engine has of a range of tokens.
func (m *maintainedMeta) ingest() {
	source := openTest(m.t, Options{Clock: m.clock, Inline: true})
	defer source.Close()
	table, tokens := m.table(), m.tokens()
	for range 8 {
		mutation := new(row.Mutation)
		mutation.Reset(table, m.key())
		for range 3 {
			r := row.NewRow()
			r.Clustering = m.clustering()
			m.row(r)
			mutation.AddRow(r)
		}
		start, end := m.interval()
		mutation.AddRangeTombstone(row.RangeTombstone{Start: start, End: end, Deletion: m.deletion()})
		mustApply(m.t, source, mutation)
	}
	g := m.engine.NewIngestion(table, tokens)
	if m.rng.IntN(4) == 0 {
		m.check("truncate", m.engine.Truncate(table))
	}
	for first, after := true, []byte(nil); first || after != nil; first = false {
		var block []byte
		var err error
		block, after, err = source.Export(nil, table, tokens, nil, after, 64)
		m.check("export", errors.Join(err, g.Add(block)))
	}
	if m.rng.IntN(5) == 0 {
		g.Abort()
	} else {
		m.check("commit", g.Commit())
	}
}

// lose puts a file into quarantine that had rows, or entries.
func (m *maintainedMeta) lose() {
	lower, upper := rowkey.AppendTable(nil, m.table()), []byte(nil)
	switch m.rng.IntN(3) {
	case 0: // entries
		lower = m.ledger.Space().appendTable(nil, m.table())
		upper = append(slices.Clone(lower), 0xFF)
	case 1: // rows of more than one table
		upper = rowkey.AppendPartition(nil, m.extra, m.key())
	default:
		upper = rowkey.AppendPartition(nil, rowkey.TableOf(lower), m.key())
	}
	if bytes.Compare(lower, upper) >= 0 {
		return
	}
	m.engine.db.Corrupted(database.CorruptionInfo{
		Path: fmt.Sprint("file", len(m.log)), Start: lower, End: upper, Err: errDisk,
	})
	lost, err := m.engine.Quarantine()
	m.check("quarantine", err)
	for _, x := range lost {
		m.check("lift", m.engine.Lift(x.Table, ring.FullRange(), x.Number))
	}
}

// quiet is a testing.TB that only notes errors.
type quiet struct {
	testing.TB
	errors []string
}

func (q *quiet) Errorf(format string, args ...any) {
	q.errors = append(q.errors, fmt.Sprintf(format, args...))
}
func (q *quiet) Error(args ...any) { q.errors = append(q.errors, fmt.Sprint(args...)) }

// runMaintained returns the first errors of a run, and how often each event was seen.
func runMaintained(t testing.TB, seed uint64, ops int, ignored string) (found []string, seen map[string]int) {
	q := &quiet{TB: t}
	m := &maintainedMeta{
		meta:    &meta{t: q, rng: rand.New(rand.NewPCG(seed, 5)), clock: newTestClock(), disk: vfs.NewCrashableMem()},
		ignored: ignored, seen: map[string]int{}, extra: testTable + 2,
	}
	info := tableinfo.Info{Exists: true, GCGraceSeconds: metaGrace, GC: tableinfo.GCTimeout}
	m.opts = Options{Clock: m.clock, Inline: m.rng.IntN(2) == 0, NoSweep: true,
		MemTableBytes: 1 << (14 + m.rng.IntN(8)),
		Table:         func(schema.StorageID) tableinfo.Info { return info }}
	m.open()
	defer func() { _ = m.engine.Close() }()
	for i := 0; i < ops && len(q.errors) == 0; i++ {
		m.step()
	}
	for event, n := range m.ledger.seen {
		m.seen[event] += n
	}
	return q.errors, m.seen
}

// TestMaintainersSeeEveryRow: after any operation, a restart or a crash, the entries of a maintainer equal what a scan
// of all rows finds.
func TestMaintainersSeeEveryRow(t *testing.T) {
	all := map[string]int{}
	for seed := uint64(1); seed <= uint64(tier.Draws(8, 2)); seed++ {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		found, seen := runMaintained(t, seed, *opsFlag/3, "")
		if len(found) > 0 {
			t.Fatalf("go test ./storage -run TestMaintainersSeeEveryRow -seed %d:\n%s", seed,
				strings.Join(found[:min(8, len(found))], "\n"))
		}
		for event, n := range seen {
			all[event] += n
		}
		if *seedFlag != 0 {
			return
		}
	}
	for _, event := range []string{"enter", "stage", "ingest", "purge", "emptied", "remove", "drop", "lose"} {
		if all[event] == 0 {
			t.Errorf("no run had the event %q", event)
		}
	}
}

// TestMissingEventsAreFound: a maintainer that misses any of the events has other entries than a scan finds.
func TestMissingEventsAreFound(t *testing.T) {
	for _, event := range []string{"enter", "stage", "purge", "remove", "lose"} {
		found := false
		for seed := uint64(1); seed <= 10 && !found; seed++ {
			differences, _ := runMaintained(t, seed, 300, event)
			found = len(differences) > 0
		}
		if !found {
			t.Errorf("10 seeds did not notice that the event %q is missing", event)
		}
	}
}

// TestMaintainersAreChecked: two maintainers do not share keys, and a directory is not opened without its maintainer.
func TestMaintainersAreChecked(t *testing.T) {
	disk := vfs.NewMem()
	o := Options{Dir: "db", FS: disk, Clock: newTestClock(), Inline: true}
	o.Maintainers = []Maintainer{newLedger(""), newLedger("")}
	if e, err := Open(o); err == nil || !strings.Contains(err.Error(), "key space") {
		t.Fatalf("two maintainers of one key space: %v, %v", e, err)
	}
	l := newLedger("")
	o.Maintainers = []Maintainer{l}
	e := openTest(t, o)
	if err := errors.Join(l.host.Write(true, func(d Derived) error { d.Mark(testTable); return nil }),
		e.Close()); err != nil {
		t.Fatal(err)
	}
	o.Maintainers = nil
	if e, err := Open(o); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Fatalf("a directory without its maintainer: %v, %v", e, err)
	}
	o.Maintainers = []Maintainer{newLedger("")}
	e = openTest(t, o)
	defer e.Close()
	marked := 0
	if err := e.derived.list[0].Maintainer.(*ledger).host.Marks(func(schema.StorageID) { marked++ }); err != nil ||
		marked != 1 {
		t.Fatalf("%d marks, %v", marked, err)
	}
	if _, err := e.Partitions(&PartitionsRead{Table: testTable, Limit: 1}); !errors.Is(err, failure.ErrInvalid) {
		t.Fatalf("a listing without a lister: %v", err)
	}
}

// TestFailedCommitsAreSettled: Settle is called with the error, and the rows, of a commit that fails.
func TestFailedCommitsAreSettled(t *testing.T) {
	l := &settled{ledger: newLedger("")}
	e := openTest(t, Options{Inline: true, Maintainers: []Maintainer{l}})
	if err := apply(e, putRow("a", 1, 1, "v")); !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("a commit that panics: %v", err)
	}
	if l.calls != 0 || !errors.Is(l.err, failure.ErrStopped) || l.rows != 1 {
		t.Errorf("%d calls without Settle, error %v, %d rows", l.calls, l.err, l.rows)
	}
}

// TestLargeCommitsAreSettled: Settle is called with the rows also of a batch whose memory Pebble keeps.
func TestLargeCommitsAreSettled(t *testing.T) {
	l := newLedger("")
	e := openTest(t, Options{Inline: true, MemTableBytes: 64 << 10, Maintainers: []Maintainer{l}})
	defer e.Close()
	for i, size := range []int{100, 40 << 10, 200 << 10} {
		if err := apply(e, putRow("a", i, 1, strings.Repeat("v", size))); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.fails) > 0 || l.calls != 0 {
		t.Errorf("%d calls without Settle; %v", l.calls, l.fails)
	}
}

// settled keeps what Settle was called with.
type settled struct {
	*ledger
	err  error
	rows int
}

func (s *settled) Enter(d Derived, in *Entering) {
	s.ledger.Enter(d, in)
	panic("in the midst of a commit")
}

func (s *settled) Settle(in *Entering, err error) {
	s.calls--
	s.err = err
	for x := (Entered{}); in.Next(&x); {
		s.rows++
	}
}

// TestWalkVisitsEveryPartition walks over the partitions of a table in steps of every size.
func TestWalkVisitsEveryPartition(t *testing.T) {
	l := newLedger("")
	e := openTest(t, Options{Inline: true, Maintainers: []Maintainer{l}})
	defer e.Close()
	const partitions = 7
	for i := range partitions {
		mustApply(t, e, putRow(fmt.Sprint("key", i), 1, 1, "v"), putRow(fmt.Sprint("key", i), 2, 1, "v"))
	}
	for n := 1; n <= partitions+1; n++ {
		visited, steps := map[string]int{}, 0
		for first, position := true, []byte(nil); first || position != nil; first = false {
			var err error
			if position, err = l.host.Walk(testTable, position, n,
				func(k row.PartitionKey) { visited[string(k.Bytes)]++ }); err != nil {
				t.Fatal(err)
			}
			steps++
		}
		if len(visited) != partitions || steps != (partitions+n-1)/n {
			t.Errorf("steps of %d: %d partitions in %d steps", n, len(visited), steps)
		}
		for k, times := range visited {
			if times != 1 {
				t.Errorf("steps of %d: %s was visited %d times", n, k, times)
			}
		}
	}
}
