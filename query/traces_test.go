package query

import (
	"fmt"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/internal/wire"
	"cqld/ring"
)

// newTracing returns a Processor with the roles root, a superuser, alice, bob, and carol, who has SELECT on
// system_traces.
func newTracing(t *testing.T) (*Processor, *Session) {
	t.Helper()
	directory := auth.NewDirectory()
	yes := true
	for _, c := range []auth.Change{&auth.CreateRole{Name: "root", Settings: auth.RoleSettings{Superuser: &yes}},
		&auth.CreateRole{Name: "alice"},
		&auth.CreateRole{Name: "bob"}, &auth.CreateRole{Name: "carol"},
		&auth.GrantPermissions{Role: "alice", Resource: auth.AllKeyspaces(),
			Permissions: auth.NewPermissionSet(auth.Select, auth.Modify)},
		&auth.GrantPermissions{Role: "bob", Resource: auth.AllKeyspaces(),
			Permissions: auth.NewPermissionSet(auth.Select, auth.Modify, auth.Unmask)},
		&auth.GrantPermissions{Role: "carol", Resource: auth.Keyspace("system_traces"),
			Permissions: auth.NewPermissionSet(auth.Select)}} {
		next, err := auth.Apply(directory, c)
		if err != nil {
			t.Fatal(err)
		}
		directory = next
	}
	p, s := newMaskingProcessorFor(t, &modelStore{}, auth.CassandraAuthorizer{Directory: func() *auth.Directory {
		return directory
	}}, "root")
	s.Keyspace = "msk"
	if got := runStatementAs(p, s, "root", "CREATE TABLE t (k int PRIMARY KEY, v text MASKED WITH "+
		"DEFAULT)"); got != "ok\n" {
		t.Fatal(got)
	}
	return p, s
}

// traceAs executes a traced statement and returns the id of its session.
func traceAs(t *testing.T, p *Processor, s *Session, role, text string) string {
	t.Helper()
	r := tracedAt(ring.One)
	r.Principal.Name = role
	if _, err := p.Query(r, s, text, &Params{}); err != nil || r.TraceID == nil {
		t.Fatalf("%s: %v", text, err)
	}
	return wireUUID(*r.TraceID)
}

// TestRolesReadOnlyTheirOwnTraces executes every form of a SELECT from both tables as each role, with its own session,
// that of another role, and both. Nothing of another role's session is in an answer without SELECT on the table.
func TestRolesReadOnlyTheirOwnTraces(t *testing.T) {
	p, s := newTracing(t)
	own := traceAs(t, p, s, "alice", "INSERT INTO t (k, v) VALUES (1, 'alices')")
	other := traceAs(t, p, s, "bob", "INSERT INTO t (k, v) VALUES (2, 'bobs')")
	prepared, err := p.Prepare(at(ring.One), s, "SELECT parameters FROM system_traces.sessions WHERE session_id = ?",
		"")
	if err != nil {
		t.Fatal(err)
	}
	const denied = "User alice has no SELECT permission on <table system_traces."
	for _, c := range []struct {
		where string
		named bool // the statement names partitions
	}{
		{"WHERE session_id = " + other, true}, {"WHERE session_id IN (" + own + ", " + other + ")", true}, {"", false},
		{"WHERE token(session_id) > -9223372036854775808", false}, {"WHERE session_id = " + other + " LIMIT 1", true},
		{"WHERE token(session_id) = token(" + other + ")", false},
	} {
		for _, from := range []string{"* FROM system_traces.sessions", "* FROM system_traces.events",
			"JSON * FROM system_traces.sessions",
			"count(*) FROM system_traces.events", "DISTINCT session_id FROM system_traces.events",
			"max(activity), session_id FROM system_traces.events",
			"* FROM MUTATION_FRAGMENTS(system_traces.sessions)"} {
			text := "SELECT " + from + " " + c.where
			for _, prefix := range []string{"", "EXPLAIN ANALYZE "} {
				got := runStatementAs(p, s, "alice", prefix+text)
				if strings.Contains(got, "bobs") || strings.Contains(got, other) &&
					!strings.Contains(prefix, "EXPLAIN") {
					t.Errorf("alice: %s%s shows\n%s", prefix, text, got)
				}
				if !c.named && !strings.Contains(from, "MUTATION") && !strings.Contains(got, denied) {
					t.Errorf("alice: %s%s is not refused: %s", prefix, text, got)
				}
			}
			if strings.Contains(from, "MUTATION") || !strings.HasPrefix(from, "*") {
				continue
			}
			for _, role := range []string{"root", "carol"} {
				if got := runStatementAs(p, s, role, text); !strings.Contains(got, other) ||
					strings.Contains(from, "sessions") && !strings.Contains(got, "bobs") {
					t.Errorf("%s: %s does not show the session: %s", role, text, got)
				}
			}
		}
	}
	for _, table := range []string{"sessions", "events"} {
		text := fmt.Sprintf("SELECT * FROM system_traces.%s WHERE session_id IN (%s, %s)", table, own, other)
		if got := runStatementAs(p, s, "alice", text); !strings.Contains(got, "alices") || !strings.Contains(got, own) {
			t.Errorf("alice does not see her session: %s", got)
		}
	}
	for id, want := range map[string]int32{own: 1, other: 0} {
		r := at(ring.One)
		r.Principal.Name = "alice"
		result, err := p.Execute(r, s, prepared.Prepared.ID,
			&Params{Values: []wire.Value{wire.BytesValue(uuidBytes(id))}})
		if err != nil || result.RowCount != want {
			t.Errorf("a prepared statement returns %d rows of %s, %v", result.RowCount, id, err)
		}
	}
	for _, text := range []string{"UPDATE system_traces.sessions SET client = '1.2.3.4' WHERE session_id = " + own,
		"TRUNCATE system_traces.sessions",
		"DELETE FROM system_traces.sessions WHERE session_id = " + other + " IF client = '1.2.3.4'"} {
		if got := runStatementAs(p, s, "alice", text); !strings.Contains(got, "MODIFY") {
			t.Errorf("alice: %s: %s", text, got)
		}
	}
}

func uuidBytes(text string) []byte {
	var b []byte
	_, _ = fmt.Sscanf(strings.ReplaceAll(text, "-", ""), "%x", &b)
	return b
}

// Traces over the budget are not stored, and the client gets a warning instead of them.
func TestTracesOverTheBudgetAreNotStored(t *testing.T) {
	var taken []int
	p, s := newProcessorWith(t, &modelStore{}, func(o *Options) {
		o.TraceBudget = func(bytes int) bool { taken = append(taken, bytes); return len(taken) == 1 }
	}, "CREATE TABLE t (k int PRIMARY KEY)")
	for i, want := range []string{"1\n", "0\n"} {
		r := tracedAt(ring.One)
		_, err := p.Query(r, s, "INSERT INTO t (k) VALUES (1) /* "+strings.Repeat("x", 100000)+" */", &Params{})
		if err != nil {
			t.Fatal(err)
		}
		if got := collectPages(t, p, s, "SELECT count(*) FROM system_traces.sessions WHERE session_id = "+
			wireUUID(*r.TraceID), 0); got != want {
			t.Errorf("trace %d: %s sessions", i, got)
		}
		if len(r.Warnings) != i {
			t.Errorf("trace %d: warnings %v", i, r.Warnings)
		}
	}
	if len(taken) != 2 || taken[0] < 100000 || taken[0] > 2*65536+1000 {
		t.Errorf("the budget was asked for %v bytes", taken)
	}
}
