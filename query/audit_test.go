package query

import (
	"bufio"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"cqld/audit"
	"cqld/auth"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/request"
	"cqld/ring"
)

// recordedEntry is an entry of the audit log.
type recordedEntry struct {
	Source, User, Type, Category, Keyspace, Scope, Operation, Batch, Outcome, Error string
	Port                                                                            int
}

// newAudited returns a processor over a model that records, and a function that returns the entries so far and ends the
// log.
func newAudited(t *testing.T, definitions ...string) (*Processor, *Session, func() []recordedEntry) {
	t.Helper()
	p, s := newTestProcessor(t, &modelStore{}, definitions...)
	settings := audit.DefaultSettings()
	settings.Dir = t.TempDir()
	p.o.Audit = audit.New(audit.Options{}, settings)
	if err := p.o.Audit.Enable(settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.o.Audit.Close)
	return p, s, func() (all []recordedEntry) {
		p.o.Audit.Close()
		f, err := os.Open(filepath.Join(settings.Dir, "audit.log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e recordedEntry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			all = append(all, e)
		}
		return all
	}
}

func tracedAlice() *request.Request {
	r := alice()
	r.Tracing = true
	return r
}

func alice() *request.Request {
	r := at(ring.One)
	r.Principal, r.Client = auth.Principal{Name: "alice"}, netip.MustParseAddrPort("127.0.0.7:4711")
	return r
}

func TestStatementsAreRecorded(t *testing.T) {
	p, s, entries := newAudited(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	ask := func(text string) {
		_, _ = p.Query(alice(), s, text, &Params{}) // errors are recorded, too
	}
	ask("SELECT * FROM t")
	ask("SELECT nix FROM t")
	ask("CREATE ROLE a WITH PASSWORD = 'secret1' nonsense")
	ask("ALTER TABLE t WITH comment = 'it''s'")
	prepared, err := p.Prepare(alice(), s, "INSERT INTO ks.t (k, v) VALUES (?, ?)", "")
	if err != nil {
		t.Fatal(err)
	}
	values := []wire.Value{wire.BytesValue([]byte{0, 0, 0, 1}), wire.BytesValue([]byte{0, 0, 0, 2})}
	if _, err := p.Execute(alice(), s, prepared.Prepared.ID, &Params{Values: values}); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Execute(alice(), s, make([]byte, 16), &Params{})
	want := []recordedEntry{
		{Type: "SELECT", Category: "QUERY", Keyspace: "ks", Scope: "t", Operation: "SELECT * FROM t"},
		{Type: "REQUEST_FAILURE", Category: "ERROR", Keyspace: "ks", Operation: "SELECT nix FROM t",
			Error: "Undefined column name nix in table ks.t"},
		{Type: "REQUEST_FAILURE", Category: "ERROR", Keyspace: "ks", Operation: "CREATE ROLE a WITH PASSWORD *******",
			Error: "Syntax Exception. Obscured for security reasons."},
		{Type: "ALTER_TABLE", Category: "DDL", Keyspace: "ks", Scope: "t",
			Operation: "ALTER TABLE t WITH comment = 'it''s'"},
		{Type: "PREPARE_STATEMENT", Category: "PREPARE", Keyspace: "ks", Scope: "t",
			Operation: "INSERT INTO ks.t (k, v) VALUES (?, ?)"},
		{Type: "UPDATE", Category: "DML", Keyspace: "ks", Scope: "t",
			Operation: "INSERT INTO ks.t (k, v) VALUES (?, ?)"},
		{Type: "REQUEST_FAILURE", Category: "ERROR", Keyspace: "ks",
			Error: (&invalid.Unprepared{ID: make([]byte, 16)}).Error()},
	}
	got := entries()
	for i := range want {
		w := &want[i]
		w.User, w.Source, w.Port, w.Outcome = "alice", "127.0.0.7", 4711, "success"
		if w.Error != "" {
			w.Outcome = "failure"
		}
		if i >= len(got) || got[i] != *w {
			t.Errorf("entry %d:\n%+v\nwant\n%+v", i, got[min(i, len(got)-1)], *w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}

func TestBatchesAreRecordedWithAnID(t *testing.T) {
	p, s, entries := newAudited(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	batch := func(texts ...string) {
		params := &BatchParams{Kind: cql.BatchUnlogged}
		for _, text := range texts {
			params.Entries = append(params.Entries, BatchEntry{Text: text})
		}
		_, _ = p.Batch(alice(), s, params)
	}
	batch("INSERT INTO t (k, v) VALUES (1, 1)", "DELETE FROM t WHERE k = 2")
	batch("INSERT INTO t (k, v) VALUES (1, 1)", "INSERT INTO nix (k) VALUES (1)")
	got := entries()
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, kind := range []string{"BATCH", "UPDATE", "DELETE"} {
		if got[i].Type != kind || got[i].Batch != got[0].Batch || len(got[i].Batch) != 36 || got[i].Keyspace != "ks" {
			t.Errorf("entry %d: %+v", i, got[i])
		}
	}
	if got[0].Operation != "BATCH of 2 statements at consistency ONE" ||
		got[2].Operation != "DELETE FROM t WHERE k = 2" {
		t.Errorf("%+v", got[:3])
	}
	if got[3].Type != "REQUEST_FAILURE" || got[3].Error != "table nix does not exist" ||
		got[3].Operation != got[0].Operation {
		t.Errorf("%+v", got[3])
	}
}

// TestRefusedStatementsAreRecorded checks the type of statements without permission.
func TestRefusedStatementsAreRecorded(t *testing.T) {
	p, s, entries := newAudited(t)
	_, _ = p.Query(alice(), s, "INSERT INTO system.local (key) VALUES ('a')", &Params{})
	got := entries()
	if len(got) != 1 || got[0].Type != "UNAUTHORIZED_ATTEMPT" || got[0].Category != "AUTH" ||
		got[0].Outcome != "failure" {
		t.Errorf("%+v", got)
	}
}
