package backup

import (
	"reflect"
	"strings"
	"testing"

	"cqld/query/testschema"
	"cqld/schema"
	"cqld/types"
)

// replacing returns all tables of users, which replace the ones with their names.
func replacing(t *testing.T, s *schema.Schema) []Target {
	out := all(t, s)
	for i := range out {
		out[i].Replaces = true
	}
	return out
}

// TestSchemasAreReplaced restores a schema in the place of itself, after tables and an index have changed: DESCRIBE
// shows the schema of the backup. An attempt that ended after any of the changes is continued, and one that ended after
// the replacement is done.
func TestSchemasAreReplaced(t *testing.T) {
	then := elements(t)
	retention := &schema.Retention{Dropped: 1, Until: 2}
	live := applied(t, then, []schema.Change{&schema.AlterTable{Keyspace: "ks", Table: "base",
		Rename: []schema.Rename{{From: "c", To: "renamed"}}}, &schema.DropIndex{Keyspace: "ks", Name: "legacy"},
		&schema.AlterTable{Keyspace: "other", Table: "Quoted", Extend: map[string][]byte{"x": {1}}},
		&schema.DropTable{Keyspace: "ks", Table: "n", Retention: retention}})
	targets := replacing(t, then)
	changes, err := Changes(then, live, targets, "seed", true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(changes) + 1 {
		part := applied(t, live, changes[:n])
		rest, err := Changes(then, part, targets, "seed", true)
		if err != nil || len(rest) != len(changes)-n {
			t.Fatalf("after %d changes: %d changes, %v", n, len(rest), err)
		}
		loaded := applied(t, part, rest)
		for _, name := range []string{"t", "base", "some"} {
			if loaded.Table("ks", name) != live.Table("ks", name) && loaded.Table("ks", name).ID != live.Table("ks",
				name).ID {
				t.Errorf("%s is not the table before", name)
			}
		}
		c := Replacement(then, loaded, targets, "seed")
		c.Retention = retention
		now := applied(t, loaded, []schema.Change{c})
		for _, keyspace := range []string{"ks", "other"} {
			got, want := described(t, now, keyspace), described(t, then, keyspace)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if len(now.Retained()) != 4 || now.Table("ks", "t").ID != IDOf("seed", targets[0]) {
			t.Errorf("%d tables are retained; t has the identifier %s", len(now.Retained()), now.Table("ks", "t").ID)
		}
		// Also when one of the tables was dropped since.
		for _, after := range []*schema.Schema{now, applied(t, now, []schema.Change{&schema.DropTable{Keyspace: "ks",
			Table: "t", Retention: retention}})} {
			again, err := Changes(then, after, targets, "seed", true)
			if err != nil || len(again) != 0 || Replacement(then, after, targets, "seed") != nil {
				t.Errorf("another attempt makes %d changes, %v", len(again), err)
			}
		}
	}
}

// TestReplacementsHaveOtherNames restores a table in the place of another one. Its indexes have names of their own, and
// it has no views.
func TestReplacementsHaveOtherNames(t *testing.T) {
	then := elements(t)
	long := strings.Repeat("x", 210) // the names of its indexes must not be longer than nameMax
	now := applied(t, then, []schema.Change{&schema.CreateTable{Keyspace: "ks", Table: long, ID: schema.UUID{0xEE},
		Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}}})
	targets := []Target{{"ks", "t", "ks", long, true}, {"ks", "base", "ks", "n", true}}
	changes, err := Changes(then, now, targets, "seed", false)
	if err != nil {
		t.Fatal(err)
	}
	now = applied(t, now, append(changes, Replacement(then, now, targets, "seed")))
	table := now.Table("ks", long)
	if table.ID != IDOf("seed", targets[0]) || len(table.Indexes()) != 2 || len(now.Table("ks", "n").Views()) != 0 {
		t.Errorf("%+v", table)
	}
}

// TestReplacementsOfViewsAreRefused replaces a table with a view that the backup does not have.
func TestReplacementsOfViewsAreRefused(t *testing.T) {
	then := testschema.New(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	now := testschema.New(t, "CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATE MATERIALIZED VIEW later AS "+
		"SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)")
	targets := replacing(t, then)
	changes, err := Changes(then, now, targets, "seed", true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = schema.Apply(applied(t, now, changes), Replacement(then, now, targets, "seed"))
	if err == nil || !strings.Contains(err.Error(), "its materialized view 'later' is not restored with it") {
		t.Errorf("%v", err)
	}
}
