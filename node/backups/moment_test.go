package backups

import (
	"slices"
	"testing"

	"cqld/backup"
	"cqld/query/testschema"
	"cqld/schema"
)

// changed applies changes to a schema.
func changed(t *testing.T, s *schema.Schema, changes ...schema.Change) *schema.Schema {
	t.Helper()
	for _, c := range changes {
		next, err := schema.Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

// TestTablesOfMomentsAreInTheBackupOrLater compares the tables of a moment with those that a backup contains. A table
// that was retained when the backup was made is in its schema, but not in its files.
func TestTablesOfMomentsAreInTheBackupOrLater(t *testing.T) {
	const create = " (k int PRIMARY KEY)"
	kept := testschema.New(t, "CREATE TABLE kept"+create, "CREATE TABLE dropped"+create, "CREATE TABLE again"+create,
		"CREATE TABLE undropped"+create, "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', "+
			"'replication_factor': 2}", "CREATE TABLE other.kept"+create)
	undropped := kept.Table("ks", "undropped").StorageID
	base := changed(t, kept, &schema.DropTable{Keyspace: "ks", Table: "undropped",
		Retention: &schema.Retention{Until: 1}})
	then := changed(t, base, &schema.DropTable{Keyspace: "ks", Table: "dropped"},
		&schema.DropTable{Keyspace: "ks", Table: "again"},
		&schema.UndropTable{Keyspace: "ks", Table: undropped, As: "undropped"},
		&schema.CreateTable{Keyspace: "ks", Table: "again", ID: schema.UUID{0: 9, 6: 0x40, 8: 0x80},
			Options: kept.Table("ks", "kept").Options,
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey,
				Type: kept.Table("ks", "kept").PartitionKey[0].Type}}})
	for what, of := range map[string]struct {
		scope, want []string
		lacks       bool
	}{
		"everything": {nil, []string{"ks.again", "ks.kept", "other.kept"}, true},
		"a keyspace": {[]string{"ks"}, []string{"ks.again", "ks.kept"}, true},
		// The table with this name is a new one: it began empty, after the backup.
		"tables": {[]string{"ks.again", "ks.dropped"}, []string{"ks.again"}, false},
	} {
		tables, lacking, err := momentTables(&backup.Manifest{Scope: of.scope}, base, then)
		var got []string
		for _, t := range tables {
			got = append(got, t.Keyspace+"."+t.Name)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, of.want) || lacking["ks.undropped"] != of.lacks {
			t.Errorf("%s: %q, %v, %v", what, got, lacking, err)
		}
	}
	// By name, and with everything, it is refused instead of restored without rows.
	m := &backup.Manifest{Name: "base"}
	contained, lacking, err := momentTables(m, base, then)
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range [][]string{nil, {"ks.undropped"}} {
		if _, err := targets(m, then, contained, lacking, &Restoration{Scope: scope}); err == nil {
			t.Errorf("%q: the table is restored", scope)
		}
	}
	if out, err := targets(m, then, contained, lacking, &Restoration{Scope: []string{"ks.kept"}}); err != nil ||
		len(out) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}
