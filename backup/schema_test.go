package backup

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/testschema"
	"cqld/schema"
	"cqld/types"
)

// described returns the statements that DESCRIBE shows for a keyspace.
func described(t *testing.T, s *schema.Schema, keyspace string) (out []string) {
	t.Helper()
	d := definition.Describer{Schema: s}
	_, rows, _, err := d.Describe(&cql.Describe{Kind: cql.DescribeKeyspace, Name: cql.QualifiedName{Name: keyspace}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		out = append(out, string(row[3]))
	}
	return out
}

// applied returns the schema after changes, which are encoded as the metadata log does.
func applied(t *testing.T, s *schema.Schema, changes []schema.Change) *schema.Schema {
	t.Helper()
	for _, c := range changes {
		decoded, err := schema.DecodeChange(schema.EncodeChange(c))
		if err == nil {
			s, err = schema.Apply(s, decoded)
		}
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	return s
}

// all returns all tables of users under their own names.
func all(t *testing.T, s *schema.Schema) (out []Target) {
	t.Helper()
	tables, err := Tables(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		out = append(out, Target{table.Keyspace, table.Name, table.Keyspace, table.Name, false})
	}
	return out
}

// elements is a schema with elements of all kinds. Columns were dropped, so that ids have gaps.
func elements(t *testing.T) *schema.Schema {
	return testschema.New(t,
		"CREATE TYPE zz (x int)",
		"CREATE TYPE aa (x int, z frozen<zz>, l list<frozen<zz>>)",
		"COMMENT ON TYPE aa IS 'a type'",
		"COMMENT ON KEYSPACE ks IS 'a keyspace'",
		"CREATE TABLE t (gone int, k int, c text, d int, s int static, v text MASKED WITH DEFAULT, m map<text, int>, "+
			"a frozen<aa>, n int CHECK n > 0, PRIMARY KEY ((k), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) "+
			"AND comment = 'a table' AND default_time_to_live = 100",
		"ALTER TABLE t DROP gone",
		"CREATE INDEX legacy ON t (v)",
		"CREATE INDEX sai ON t (entries(m)) USING 'sai'",
		"CREATE TABLE n (k int PRIMARY KEY, v counter)",
		"CREATE TABLE dropped (k int PRIMARY KEY)",
		"DROP TABLE dropped",
		"CREATE TABLE base (gone int, k int, c int, v int, w int, PRIMARY KEY (k, c))",
		"ALTER TABLE base DROP gone",
		"CREATE MATERIALIZED VIEW some AS SELECT k, c, v FROM base WHERE v IS NOT NULL AND c > 5 AND k IS NOT NULL "+
			"PRIMARY KEY ((v), c, k) WITH CLUSTERING ORDER BY (c DESC, k ASC) AND comment = 'a view'",
		"CREATE MATERIALIZED VIEW whole AS SELECT * FROM base WHERE v IS NOT NULL AND c IS NOT NULL AND k IS NOT NULL "+
			"PRIMARY KEY (v, k, c)",
		"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2} "+
			"AND durable_writes = false",
		"CREATE TABLE other.\"Quoted\" (\"K\" int PRIMARY KEY, \"V v\" int)",
	)
}

// TestSchemasAreRestored restores a schema to a cluster without one: DESCRIBE shows the same statements.
func TestSchemasAreRestored(t *testing.T) {
	then := elements(t)
	changes, err := Changes(then, schema.Initial(), all(t, then), "seed", true)
	if err != nil {
		t.Fatal(err)
	}
	now := applied(t, schema.Initial(), changes)
	for _, keyspace := range []string{"ks", "other"} {
		got, want := described(t, now, keyspace), described(t, then, keyspace)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, target := range all(t, then) {
		table := now.Table(target.Into, target.As)
		if table.ID != IDOf("seed", target) || table.ID == then.Table(target.Keyspace, target.Name).ID {
			t.Errorf("%+v has the identifier %s", target, table.ID)
		}
	}
	// Another attempt finds everything.
	again, err := Changes(then, now, all(t, then), "seed", true)
	if err != nil || len(again) != 0 {
		t.Errorf("another attempt makes %d changes, %v", len(again), err)
	}
	if _, err := Changes(then, now, all(t, then), "another seed", true); err == nil ||
		!strings.Contains(err.Error(), "exists: drop it, or restore the table under another name") {
		t.Errorf("another restoration: %v", err)
	}
	// An attempt that ended after any of the changes is continued.
	for n := range changes {
		part := applied(t, schema.Initial(), changes[:n])
		rest, err := Changes(then, part, all(t, then), "seed", true)
		if err != nil {
			t.Fatalf("after %d changes: %v", n, err)
		}
		whole := applied(t, part, rest)
		for _, target := range all(t, then) {
			if whole.Table(target.Into, target.As) == nil {
				t.Errorf("after %d changes, %+v is missing", n, target)
			}
		}
	}
}

// TestTablesAreRestoredUnderOtherNames restores single tables beside those that exist.
func TestTablesAreRestoredUnderOtherNames(t *testing.T) {
	then := elements(t)
	changes, err := Changes(then, then, []Target{{"ks", "t", "ks", "t2", false}}, "seed", false)
	if err != nil {
		t.Fatal(err)
	}
	now := applied(t, then, changes)
	if len(changes) != 1 || len(now.Table("ks", "t2").Indexes()) != 2 {
		t.Errorf("%d changes, indexes %v", len(changes), now.Table("ks", "t2").Indexes())
	}
	if changes, err = Changes(then, then, []Target{{"ks", "base", "other", "base", false}}, "seed", false); err != nil {
		t.Fatal(err)
	}
	if now = applied(t, then, changes); len(now.Table("other", "base").Views()) != 0 {
		t.Error("a view was restored under the name of its own")
	}
	for want, target := range map[string]Target{
		"has a user-defined type":         {"ks", "t", "other", "t", false},
		"there is no keyspace nowhere":    {"ks", "n", "nowhere", "n", false},
		"the backup has no table ks.some": {"ks", "some", "ks", "x", false},
	} {
		if _, err := Changes(then, then, []Target{target}, "seed", false); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", target, err, want)
		}
	}
}

// TestViewsDoNotReplaceTables restores a table with a view whose name another table has.
func TestViewsDoNotReplaceTables(t *testing.T) {
	then := elements(t)
	now := testschema.New(t, "CREATE TABLE some (k int PRIMARY KEY)")
	_, err := Changes(then, now, []Target{{"ks", "base", "ks", "base", false}}, "seed", false)
	if err == nil || !strings.Contains(err.Error(), "ks.some cannot be restored, because ks.some exists") {
		t.Errorf("%v", err)
	}
}

// TestScopesNameTables selects keyspaces and tables.
func TestScopesNameTables(t *testing.T) {
	s := applied(t, elements(t), []schema.Change{
		&schema.CreateTable{Keyspace: "ks", Table: "dropped", ID: schema.UUID{0xD}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}},
		&schema.DropTable{Keyspace: "ks", Table: "dropped", Retention: &schema.Retention{Dropped: 1, Until: 2}}})
	for want, scope := range map[string][]string{"t n base Quoted": nil, "Quoted": {"other"},
		"n Quoted": {"ks.n", "other"}} {
		tables, err := Tables(s, scope)
		var names []string
		for _, table := range tables {
			names = append(names, table.Name)
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%q: %q, %v", scope, names, err)
		}
	}
	for _, scope := range []string{"none", "ks.none", "ks.some", "system", "system.paxos", ""} {
		if _, err := Tables(s, []string{scope}); err == nil {
			t.Errorf("%q was accepted", scope)
		}
	}
}

// TestRolesAreRestored restores roles beside others.
func TestRolesAreRestored(t *testing.T) {
	yes, hash, key, empty := true, "hash", "MDEyMzQ1Njc4OWFiY2RlZg==", ""
	change := func(d *auth.Directory, changes ...auth.Change) *auth.Directory {
		t.Helper()
		for _, c := range changes {
			b, err := auth.EncodeChange(c)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := auth.DecodeChange(b)
			if err == nil {
				d, err = auth.Apply(d, decoded)
			}
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		return d
	}
	then := change(auth.NewDirectory(),
		&auth.SetCIDRGroup{Name: "office", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		&auth.CreateRole{Name: "admin", Settings: auth.RoleSettings{Superuser: &yes, Login: &yes, Hash: &hash}},
		&auth.CreateRole{Name: "reader"},
		&auth.CreateRole{Name: "app", Settings: auth.RoleSettings{Login: &yes, Hash: &hash,
			Options:     map[string]string{"a": "b"},
			Datacenters: &auth.Access{Restricted: true, Names: []string{"dc1"}},
			CIDRs:       &auth.Access{Restricted: true, Names: []string{"office"}}}},
		&auth.GrantRole{Role: "reader", Grantee: "app"},
		&auth.GrantPermissions{Role: "reader", Resource: auth.Table("ks", "t"),
			Permissions: auth.NewPermissionSet(auth.Table("ks", "t").Permissions()...)},
		&auth.AddIdentity{Identity: "spiffe://app", Role: "app"},
		&auth.AlterRole{Name: "app", Settings: auth.RoleSettings{Tables: &auth.TablesSettings{Account: "account1",
			New: true, Keys: [2]*string{&key, &empty}}}},
	)
	encoded := func(d *auth.Directory) string {
		b, err := auth.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	got := change(auth.NewDirectory(), RoleChanges(then, auth.NewDirectory(), "seed")...)
	if encoded(got) != encoded(then) {
		t.Errorf("got  %s\nwant %s", encoded(got), encoded(then))
	}
	// The superuser of the new cluster keeps its password.
	other := "other"
	now := change(auth.NewDirectory(), &auth.FirstSuperuser{Name: "admin", Hash: other})
	now = change(now, RoleChanges(then, now, "seed")...)
	if r, _ := now.Role("admin"); r.Hash != other {
		t.Errorf("the hash of an existing role is %q", r.Hash)
	}
	if !now.Has("app", auth.Table("ks", "t").Permissions()[0], auth.Table("ks", "t")) {
		t.Error("a role lacks the permissions of its parent")
	}
	if again := RoleChanges(then, now, "seed"); len(again) != 0 {
		t.Errorf("another attempt makes %d changes", len(again))
	}
	// An attempt that ended after any of the changes is continued.
	changes := RoleChanges(then, auth.NewDirectory(), "seed")
	for n := range changes {
		part := change(auth.NewDirectory(), changes[:n]...)
		if got := change(part, RoleChanges(then, part, "seed")...); encoded(got) != encoded(then) {
			t.Errorf("after %d changes:\ngot  %s\nwant %s", n, encoded(got), encoded(then))
		}
	}
}
