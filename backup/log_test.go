package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"cqld/ring"
)

// owner is the node of the tests.
var owner = LogOwner{"c", "h"}

// second is the hybrid time of a second of the tests' day.
func second(n int) int64 {
	return time.Date(2026, 11, 22, 10, 0, n, 0, time.UTC).UnixMicro()
}

// at returns a position of the archive that began with second 1.
func at(log, offset uint64) LogPosition { return LogPosition{second(1), log, offset} }

// logStores returns stores of each kind that were begun.
func logStores(t *testing.T) map[string]*Store {
	t.Helper()
	all := stores(t)
	for kind, s := range all {
		if err := s.Logs().Check(t.Context()); !errors.Is(err, ErrNoStore) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := s.Initialize(t.Context(), now()); err != nil {
			t.Fatal(err)
		}
		if err := s.Logs().Check(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	return all
}

// segment stores a segment of the seconds until until.
func segment(t *testing.T, s *Store, from, to LogPosition, until int) Segment {
	t.Helper()
	g, err := s.Logs().PutSegment(t.Context(), owner, Segment{From: from, To: to, First: second(until - 1),
		Until: second(until), Stored: second(until)}, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSegmentsAreRead stores a segment in each kind of store, and reads it, also after it was damaged.
func TestSegmentsAreRead(t *testing.T) {
	for kind, s := range logStores(t) {
		data := bytes.Repeat([]byte("row "), 10000)
		g, err := s.Logs().PutSegment(t.Context(), owner, Segment{From: at(1, 0), To: at(2, 7), First: second(2),
			Until: second(5), Stored: second(5)}, data)
		if err != nil || g.Size >= int64(len(data)) {
			t.Fatalf("%s: %+v, %v", kind, g, err)
		}
		all, err := s.Logs().segmentsIn(t.Context(), owner, hour(g.Stored))
		if err != nil || len(all) != 1 || all[0] != g {
			t.Fatalf("%s: %+v, %v", kind, all, err)
		}
		err = s.Logs().ReadSegment(t.Context(), owner, g, unpaced, func(read []byte) error {
			if !bytes.Equal(read, data) {
				t.Errorf("%s: %d bytes", kind, len(read))
			}
			return io.ErrUnexpectedEOF
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v instead of the error of the consumer", kind, err)
		}
		name, err := segmentFile(owner, &g)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := small(t.Context(), s.files, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 4
			if _, err := decodeSegment(damaged); err == nil {
				t.Fatalf("byte %d was changed without an error", i)
			}
			if _, err := decodeSegment(whole[:i]); err == nil {
				t.Fatalf("a segment of %d bytes was read", i)
			}
		}
		later := bytes.Clone(whole)
		later[len(segmentMagic)-1]++
		var unknown *UnknownFormat
		if _, err := decodeSegment(later); !errors.As(err, &unknown) || unknown.Format != LogFormat+1 {
			t.Errorf("another format: %v", err)
		}
	}
}

// TestOwnersOfLogsAreChecked refuses names that lead out of the directory of logs.
func TestOwnersOfLogsAreChecked(t *testing.T) {
	s := logStores(t)["memory"]
	for _, of := range []LogOwner{{"", "h"}, {"c", ".."}, {"a/b", "h"}, {"c", "h/../x"}} {
		if _, err := s.Logs().End(t.Context(), of); err == nil {
			t.Errorf("%v was accepted", of)
		}
		if err := s.Logs().PutEnd(t.Context(), of, LogEnd{Position: at(1, 0)}); err == nil {
			t.Errorf("%v was written", of)
		}
	}
	// It would lead back, and a search for ways would not end.
	backwards := Segment{From: at(2, 0), To: at(1, 0), Stored: 1}
	if _, err := s.Logs().PutSegment(t.Context(), owner, backwards, nil); err == nil {
		t.Error("a segment that ends before its beginning was stored")
	}
	if _, err := s.Logs().State(t.Context(), "c", "../../x"); err == nil {
		t.Error("a state outside of the directory was read")
	}
}

// way returns the way from a backup at second 10, whose files begin with log 5, to a second.
func way(t *testing.T, s *Store, to int) (Way, error) {
	return s.Logs().Way(t.Context(), owner, LogFrom{Log: 5, Time: second(10)}, second(to))
}

// TestWaysLeadToMoments looks for ways in archives that are complete, begin too late, end too early, have a gap, or
// have segments of a request that was executed late.
func TestWaysLeadToMoments(t *testing.T) {
	for what, of := range map[string]struct {
		archive func(t *testing.T, s *Store)
		to      int
		want    int    // segments
		idle    bool   // the note is needed
		problem string // of the error
	}{
		"complete": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(4, 0), 5)
			segment(t, s, at(4, 0), at(5, 9), 11)
			segment(t, s, at(5, 9), at(6, 0), 20)
			segment(t, s, at(6, 0), at(6, 9), 30)
		}, 20, 2, false, ""},
		"over hours": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), -4000)
			segment(t, s, at(5, 9), at(6, 0), 4000)
			segment(t, s, at(6, 0), at(6, 9), 9000)
		}, 8000, 3, false, ""},
		"idle since the last segment": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), 11)
			note(t, s, at(5, 9), 20)
		}, 15, 1, true, ""},
		"idle since the backup": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(4, 9), 5)
			note(t, s, at(4, 9), 20)
		}, 15, 0, true, ""},
		"late request": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), 11)
			segment(t, s, at(5, 9), at(5, 50), 12)
			segment(t, s, at(5, 9), at(5, 40), 13)
			segment(t, s, at(5, 40), at(6, 0), 20)
		}, 15, 3, false, ""},
		"nothing": {func(*testing.T, *Store) {}, 15, 0, false, "has archived no log"},
		"too late": {func(t *testing.T, s *Store) {
			segment(t, s, at(6, 0), at(7, 0), 12)
		}, 12, 0, false, "begins at"},
		"note only": {func(t *testing.T, s *Store) { note(t, s, at(6, 0), 12) }, 12, 0, false, "begins at"},
		"another archive": {func(t *testing.T, s *Store) {
			since := LogPosition{second(11), 3, 0}
			segment(t, s, since, LogPosition{second(11), 7, 0}, 20)
		}, 15, 0, false, "begins at"},
		"too early": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), 11)
			note(t, s, at(5, 9), 13)
		}, 15, 0, false, "only until 2026-11-22T10:00:13.000Z"},
		"gap": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), 11)
			segment(t, s, at(6, 0), at(7, 0), 20)
		}, 15, 0, false, "gap from 2026-11-22T10:00:11.000Z to 2026-11-22T10:00:19.000Z"},
		"before the gap": {func(t *testing.T, s *Store) {
			segment(t, s, at(3, 0), at(5, 9), 15)
			segment(t, s, at(6, 0), at(7, 0), 20)
		}, 15, 1, false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			s := logStores(t)["memory"]
			of.archive(t, s)
			w, err := way(t, s, of.to)
			if of.problem != "" {
				var p *LogProblem
				if !errors.As(err, &p) || !strings.Contains(err.Error(), of.problem) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || len(w.Segments) != of.want || (w.Idle != nil) != of.idle {
				t.Fatalf("%+v, %v", w, err)
			}
			for i := 1; i < len(w.Segments); i++ {
				if w.Segments[i].From != w.Segments[i-1].To {
					t.Errorf("%+v does not follow %+v", w.Segments[i], w.Segments[i-1])
				}
			}
		})
	}
}

// note notes that nothing was logged until a second.
func note(t *testing.T, s *Store, p LogPosition, until int) {
	t.Helper()
	end := LogEnd{Position: p, Until: second(until), Data: []byte("idle")}
	if err := s.Logs().PutEnd(t.Context(), owner, end); err != nil {
		t.Fatal(err)
	}
}

// TestEndsOfLogsAreFound finds where an archive continues: after its last segment, or after the note.
func TestEndsOfLogsAreFound(t *testing.T) {
	for kind, s := range logStores(t) {
		end := func(want LogPosition, until int64) {
			t.Helper()
			if got, err := s.Logs().End(t.Context(), owner); err != nil || got.Position != want || got.Until != until {
				t.Errorf("%s: %+v, %v", kind, got, err)
			}
		}
		end(LogPosition{}, 0)
		note(t, s, at(1, 0), 3)
		end(at(1, 0), second(3))
		segment(t, s, at(1, 0), at(2, 0), 5)
		segment(t, s, at(2, 0), at(3, 0), 7000)
		segment(t, s, at(2, 0), at(2, 9), 7001)
		end(at(3, 0), second(7000))
		note(t, s, at(3, 0), 8000)
		end(at(3, 0), second(8000))
	}
}

// TestStatesAreFound chooses the state at a moment from what nodes have observed.
func TestStatesAreFound(t *testing.T) {
	seen := func(time int, epoch uint64) Observed { return Observed{Time: second(time), Epoch: epoch, Moved: 1} }
	unknown := func(since, time int, epoch uint64) Observed {
		return Observed{Time: second(time), Unknown: second(since), Epoch: epoch, Moved: 1}
	}
	moved := func(time int, epoch uint64) Observed {
		return Observed{Time: second(time), Epoch: epoch, Moved: epoch}
	}
	for what, of := range map[string]struct {
		all   []Observed
		epoch uint64
		err   string
	}{
		"last before":             {[]Observed{seen(1, 3), seen(12, 4), seen(16, 5)}, 4, ""},
		"first of the nodes":      {[]Observed{seen(1, 3), seen(1, 3), seen(14, 5), seen(17, 5)}, 5, ""},
		"none":                    {[]Observed{seen(16, 5)}, 0, "no schema was archived"},
		"nothing at all":          {nil, 0, "no schema was archived"},
		"restart without a trace": {[]Observed{seen(1, 3), unknown(13, 17, 4)}, 0, "have changed between"},
		"restart, seen elsewhere": {[]Observed{seen(1, 3), unknown(13, 17, 4), seen(16, 4)}, 3, ""},
		"restart before":          {[]Observed{seen(1, 3), unknown(11, 12, 4)}, 4, ""},
		"restart after":           {[]Observed{seen(1, 3), unknown(16, 17, 4)}, 3, ""},
		"ring moved":              {[]Observed{seen(1, 3), moved(12, 4), moved(13, 5)}, 5, ""},
		"ring moved after":        {[]Observed{seen(1, 3), moved(20, 9)}, 3, ""},
	} {
		o, err := StateAt(of.all, second(15))
		if of.err == "" && (err != nil || o.Epoch != of.epoch) || of.err != "" && (err == nil ||
			!strings.Contains(err.Error(), of.err)) {
			t.Errorf("%s: %+v, %v", what, o, err)
		}
	}
}

// TestStatesAreStoredOnce stores a state of two nodes, and refuses a backup of another ring, unless the state has the
// owners of its ring.
func TestStatesAreStoredOnce(t *testing.T) {
	for kind, s := range logStores(t) {
		state := &State{Epoch: 3, Schema: []byte("schema"), Roles: []byte("roles"), Moved: 2,
			Members: []Member{{ID: 1, Host: "h", Tokens: []ring.Token{1, 5}}}}
		for i, host := range []string{"h", "other"} {
			of := LogOwner{"c", host}
			if err := s.Logs().PutState(t.Context(), of, state, Observed{Time: second(i + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		names, err := s.files.list(t.Context(), logsDir+"/c/"+statesDir)
		if err != nil || len(names) != 1 {
			t.Errorf("%s: %q, %v", kind, names, err)
		}
		m := &Manifest{ClusterID: "c", HybridTime: second(1), Members: state.Members}
		found, err := s.Logs().MomentState(t.Context(), m, second(3), "")
		if err != nil || !found.Equal(state) || found.Hash == "" || found.Changed {
			t.Errorf("%s: %+v, %v", kind, found, err)
		}
		m.Members = []Member{{ID: 1, Host: "h", Tokens: []ring.Token{1, 6}}}
		if _, err := s.Logs().MomentState(t.Context(), m, second(3), ""); !errors.Is(err, ErrRingMoved) {
			t.Errorf("%s: another ring: %v", kind, err)
		}
		// Also if the ring is the same in the end.
		m.Members = state.Members
		for epoch, moved := range []uint64{3, 2} {
			state.Epoch, state.Moved, state.Owners = uint64(4+epoch), moved, true
			at := Observed{Time: second(4 + epoch)}
			if err := s.Logs().PutState(t.Context(), LogOwner{"c", "joined"}, state, at); err != nil {
				t.Fatal(err)
			}
		}
		found, err = s.Logs().MomentState(t.Context(), m, second(6), "")
		if err != nil || !found.Equal(state) || !found.Changed {
			t.Errorf("%s: changed: %+v, %v", kind, found, err)
		}
	}
}

// TestSweepsRemoveOldLogs removes what is older than the first backup, and keeps what it needs.
func TestSweepsRemoveOldLogs(t *testing.T) {
	for kind, s := range logStores(t) {
		day := func(n int) int64 { return now().AddDate(0, 0, n-10).UnixMicro() }
		for n := range 10 {
			g := Segment{From: at(uint64(n), 0), To: at(uint64(n)+1, 0), First: day(n), Until: day(n), Stored: day(n)}
			if _, err := s.Logs().PutSegment(t.Context(), owner, g, []byte("data")); err != nil {
				t.Fatal(err)
			}
			state := &State{Epoch: uint64(n), Moved: 1}
			if err := s.Logs().PutState(t.Context(), owner, state, Observed{Time: day(n)}); err != nil {
				t.Fatal(err)
			}
		}
		// The backup is of day 5. The margin keeps the hour of day 4, and the one before; and the state of day 4.
		w := Started{Name: "b", Created: now(), Job: "b", Nonce: "n"}
		if _, err := s.Start(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		m, err := storeFiles(t.Context(), s, w, "content")
		if err != nil {
			t.Fatal(err)
		}
		m.ClusterID, m.HybridTime = "c", day(5)
		if err := s.Complete(t.Context(), m, w.Nonce); err != nil {
			t.Fatal(err)
		}
		swept, err := s.Sweep(t.Context(), now(), time.Hour)
		if err != nil || swept.Segments != 3 {
			t.Errorf("%s: %+v, %v", kind, swept, err)
		}
		if hours, err := s.Logs().hours(t.Context(), owner); err != nil || len(hours) != 7 {
			t.Errorf("%s: %q, %v", kind, hours, err)
		}
		if left, err := s.Logs().Observations(t.Context(), owner); err != nil || len(left) != 6 {
			t.Errorf("%s: %d states, %v", kind, len(left), err)
		}
		// Without the backup, and when the node archives no longer, nothing is left.
		if err := s.Delete(t.Context(), "b", now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sweep(t.Context(), now().AddDate(0, 0, 9), 0); err != nil {
			t.Fatal(err)
		}
		if found, err := s.files.exists(t.Context(), logsDir+"/c/h"); err != nil || found {
			t.Errorf("%s: the log is still there: %v", kind, err)
		}
	}
}

// FuzzDecodeSegment decodes damaged segments.
func FuzzDecodeSegment(f *testing.F) {
	f.Add(encodeSegment([]byte("data")))
	f.Add(encodeSegment(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if data, err := decodeSegment(b); err == nil && !bytes.Equal(data, mustDecode(t, encodeSegment(data))) {
			t.Errorf("%x", b)
		}
	})
}

// mustDecode decodes a segment.
func mustDecode(t *testing.T, b []byte) []byte {
	t.Helper()
	data, err := decodeSegment(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
