package definition_test

import (
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/query/testschema"
	"cqld/schema"
)

// TestUndropOfKeyspaces executes statements in sequence, and compares their errors.
func TestUndropOfKeyspaces(t *testing.T) {
	s := testschema.New(t)
	now := int64(0)
	do := func(text string, guard *guardrail.Guard) (schema.Event, error) {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		d := testschema.Definer(s)
		// Each statement is a second later than the one before.
		now += 1e6
		d.DropGrace, d.NowMicros = func() time.Duration { return time.Hour }, func() int64 { return now }
		d.Guard = guard
		def, err := d.Define(stmt)
		if err == nil && def.Change != nil {
			// After a refusal, the schema stays.
			var next *schema.Schema
			if next, err = schema.Apply(s, def.Change); err == nil {
				s = next
			}
		}
		return def.Event, err
	}
	const create = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	const gone = "No dropped keyspace 'shop' can be restored: it never existed"
	for _, test := range []struct{ statement, want string }{
		{"UNDROP KEYSPACE shop", gone},
		{"PURGE KEYSPACE shop", gone},
		{"PURGE KEYSPACE IF EXISTS shop", ""},
		{"UNDROP KEYSPACE system", "system keyspace is not user-modifiable."},
		{"UNDROP KEYSPACE shop AS system_auth", "Cannot CREATE <keyspace system_auth>"},
		{"PURGE KEYSPACE system_traces", "Cannot DROP <keyspace system_traces>"},
		{create, ""},
		{"UNDROP KEYSPACE shop", "Keyspace 'shop' exists, and no dropped keyspace with this name can be restored"},
		{"DROP KEYSPACE shop", ""},
		{"UNDROP TABLE shop.t", "Keyspace 'shop' was dropped: restore it first, with UNDROP KEYSPACE"},
		{create, ""},
		{"UNDROP KEYSPACE shop", "UNDROP KEYSPACE … AS another name"},
		{"UNDROP KEYSPACE shop AS ks", "another keyspace has the name 'ks'"},
		{"DROP KEYSPACE shop", ""},
		{"UNDROP KEYSPACE shop WITH id = 'x'", "Invalid keyspace id"},
		{"UNDROP KEYSPACE shop WITH comment = 'x'", "Unknown property 'comment'"},
		{"UNDROP KEYSPACE shop WITH id = 7", gone},
		{`UNDROP KEYSPACE shop AS "not a name"`, "Keyspace name must not be empty"},
	} {
		_, err := do(test.statement, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.statement, err, test.want)
		}
	}
	// The second one was dropped last. Its number is greater.
	dropped := s.DroppedKeyspaces()
	event, err := do("UNDROP KEYSPACE shop AS other", nil)
	if err != nil || event.Change != schema.Created || event.Target != schema.TargetKeyspace ||
		event.Keyspace != "other" || len(s.DroppedKeyspaces()) != 1 || s.DroppedKeyspaces()[0] != dropped[0] {
		t.Errorf("restored %+v, %v", event, err)
	}
	// A restored keyspace counts as a new one, and a purge is a drop.
	guards := guardrail.Defaults()
	guards.Fail[guardrail.Keyspaces], guards.Disabled[guardrail.DropKeyspace] = 1, true
	guard := &guardrail.Guard{Guardrails: &guards, Warnings: new([]string)}
	for _, statement := range []string{"UNDROP KEYSPACE shop", "PURGE KEYSPACE shop"} {
		if _, err = do(statement, guard); err == nil {
			t.Errorf("%s is not refused", statement)
		}
	}
	if event, err = do("PURGE KEYSPACE shop", nil); err != nil || event.Change != "" ||
		len(s.DroppedKeyspaces()) != 0 {
		t.Errorf("purged: %+v, %v", event, err)
	}
}
