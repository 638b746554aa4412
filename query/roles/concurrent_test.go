package roles_test

import (
	"strings"
	"testing"

	"cqld/auth"
)

// TestStatementsThatLoseARace executes a statement on another node between the checks of a statement and its change.
func TestStatementsThatLoseARace(t *testing.T) {
	const key = "a2V5cyBvZiBzaXh0ZWVuIGJ5dGVz"
	for _, c := range []struct {
		name                  string
		first, text, and, got string
	}{
		{"the role exists meanwhile", "", "CREATE ROLE IF NOT EXISTS ada WITH GENERATED PASSWORD",
			"CREATE ROLE ada WITH PASSWORD = 'other'", "void"},
		{"the role is dropped meanwhile", "CREATE ROLE ada", "ALTER ROLE IF EXISTS ada WITH GENERATED PASSWORD",
			"DROP ROLE ada", "void"},
		{"the account exists meanwhile", "", "CREATE ROLE IF NOT EXISTS ada WITH OPTIONS = {'tables_account': 'shop'}",
			"CREATE ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_key1': '" + key + "'}", "void"},
		{"the account is dropped meanwhile", "CREATE ROLE ada",
			"ALTER ROLE IF EXISTS ada WITH OPTIONS = {'tables_account': 'shop'}", "DROP ROLE ada", "void"},
		{"the table is dropped meanwhile", "CREATE ROLE ada", "GRANT SELECT ON TABLE k.t TO ada", "DROP TABLE k.t",
			"error 2200: Resource <table k.t> doesn't exist"},
		{"the keyspace is dropped meanwhile", "CREATE ROLE ada", "GRANT CREATE ON KEYSPACE k TO ada",
			"DROP KEYSPACE k", "error 2200: Resource <keyspace k> doesn't exist"},
		{"table and role are dropped meanwhile", "CREATE ROLE ada", "GRANT SELECT ON TABLE k.t TO ada",
			"DROP TABLE k.t; DROP ROLE ada", "error 2200: Role ada doesn't exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession("authentication authorization")
			s.user = "cassandra"
			for _, text := range []string{
				"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE k.t (k int PRIMARY KEY)", c.first,
			} {
				if text != "" {
					s.execute(text)
				}
			}
			s.m.before = func() {
				for text := range strings.SplitSeq(c.and, "; ") {
					s.execute(text)
				}
			}
			if got := s.execute(c.text); got != c.got {
				t.Errorf("%s:\n%s\nwant\n%s", c.text, got, c.got)
			}
			// A table that is created again has its creator's permissions only.
			for _, g := range s.m.roles.Grants("ada") {
				if g.Resource == auth.Table("k", "t") || g.Resource == auth.Keyspace("k") {
					t.Errorf("ada has %s on %s", g.Permissions, g.Resource)
				}
			}
		})
	}
}
