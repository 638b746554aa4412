package definition_test

import (
	"testing"
	"time"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/query/testschema"
	"cqld/schema"
)

// TestUndropOfNames executes statements in sequence. The tables have the ids 1, 2, and so on, and the statements are
// one second apart.
func TestUndropOfNames(t *testing.T) {
	s := testschema.New(t)
	now, ids := int64(0), byte(0)
	first := schema.UUID{1}.String()
	grace := time.Hour
	do := func(text string) (schema.Event, error) {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		d := testschema.Definer(s)
		now += 1e6
		d.DropGrace, d.NowMicros = func() time.Duration { return grace }, func() int64 { return now }
		d.NewID = func() schema.UUID {
			ids++
			return schema.UUID{ids}
		}
		def, err := d.Define(stmt)
		if err == nil && def.Change != nil {
			s, err = schema.Apply(s, def.Change)
		}
		return def.Event, err
	}
	id := func(name string) byte {
		if table := s.Table("ks", name); table != nil {
			return table.ID[0]
		}
		return 0
	}
	const gone = "No dropped table 'ks.t' can be restored: it never existed, drop_grace was 0, or its grace has " +
		"ended (SELECT * FROM system_views.dropped_tables)"
	for _, test := range []struct{ statement, want string }{
		{"UNDROP TABLE t", gone},
		{"PURGE TABLE t", gone},
		{"PURGE TABLE IF EXISTS t", ""},
		{"UNDROP TABLE nowhere.t", "Keyspace 'nowhere' doesn't exist"},
		{"UNDROP TABLE system.local", "system keyspace is not user-modifiable."},
		{"PURGE TABLE system_auth.roles", "Cannot DROP <table system_auth.roles>"},
		{"CREATE TABLE t (k int PRIMARY KEY)", ""},
		{"UNDROP TABLE t", "Table 'ks.t' exists, and no dropped table with this name can be restored"},
		{"DROP TABLE t", ""},
		{"CREATE TABLE t (k int PRIMARY KEY)", ""},
		{"DROP TABLE t", ""},
		{"UNDROP TABLE t WITH id = 'x'", "Invalid table id"},
		{"UNDROP TABLE t WITH comment = 'x'", "Unknown property 'comment'"},
		{"UNDROP TABLE t WITH id = " + schema.UUID{9}.String(), gone},
		{"UNDROP TABLE t WITH id = " + first, ""},
		{"DROP TABLE t", ""},
	} {
		if _, err := do(test.statement); (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("%s: %v, want %q", test.statement, err, test.want)
		}
	}
	// The table with the id 1 was dropped last.
	event, err := do("UNDROP TABLE t")
	if err != nil || id("t") != 1 || event.Change != schema.Created || event.Name != "t" {
		t.Errorf("restored %d: %+v, %v", id("t"), event, err)
	}
	if event, err = do("UNDROP TABLE t AS u"); err != nil || id("u") != 2 || event.Name != "u" {
		t.Errorf("restored %d: %+v, %v", id("u"), event, err)
	}
	for _, statement := range []string{"DROP TABLE u", "UNDROP TABLE u AS t2", "DROP TABLE t2", "DROP TABLE t"} {
		if _, err = do(statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if event, err = do("PURGE TABLE t2"); err != nil || event.Change != "" || len(s.Retained()) != 1 {
		t.Errorf("%+v, %v, %d tables are retained", event, err, len(s.Retained()))
	}
	if r := s.Retained()[0].Retention; r.Until-r.Dropped != 3600 || r.Dropped < 20 {
		t.Errorf("retention %+v", r)
	}
	grace = 0
	for _, statement := range []string{"CREATE TABLE v (k int PRIMARY KEY)", "DROP TABLE v"} {
		if _, err = do(statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if len(s.Retained()) != 1 {
		t.Error("a table is retained although drop_grace is 0")
	}
}

// TestUndropIsGuarded restores and purges tables under guardrails: a restored table counts, and a purge is a drop.
func TestUndropIsGuarded(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE ks.a (k int PRIMARY KEY)", "CREATE TABLE ks.b (k int PRIMARY KEY)")
	s, err := schema.Apply(s, &schema.DropTable{Keyspace: "ks", Table: "b",
		Retention: &schema.Retention{Dropped: 1, Until: 2}})
	if err != nil {
		t.Fatal(err)
	}
	guards := guardrail.Defaults()
	guards.Fail[guardrail.Tables], guards.Disabled[guardrail.DropTruncateTable] = 1, true
	for _, text := range []string{"UNDROP TABLE b", "PURGE TABLE b"} {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d := testschema.Definer(s)
		if _, err := d.Define(stmt); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		d.Guard = &guardrail.Guard{Guardrails: &guards, Warnings: new([]string)}
		if _, err := d.Define(stmt); err == nil {
			t.Errorf("%s is not refused", text)
		}
	}
}
