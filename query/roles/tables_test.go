package roles_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"cqld/auth"
)

// tablesKey returns the n-th key that the sessions of tests generate.
func tablesKey(n int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "generated key %06d", n))
}

// TestAccountsOfAzureTables executes statements with the options of accounts. Generated keys are returned once, keys
// appear in no other answer, and other options of a role remain.
func TestAccountsOfAzureTables(t *testing.T) {
	const given, columns = "a2V5cyBvZiBzaXh0ZWVuIGJ5dGVz", "rows system_auth.tables_accounts.tables_account text"
	s := newSession("authentication authorization")
	for _, c := range []struct{ user, text, want string }{
		{"cassandra", "CREATE ROLE ada WITH LOGIN = true AND OPTIONS = {'tables_account': 'shop'}", columns +
			", system_auth.tables_accounts.tables_key1 text, system_auth.tables_accounts.tables_key2 text\n  'shop' " +
			"| '" + tablesKey(1) + "' | '" + tablesKey(2) + "'"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop'}",
			"error 2200: Azure Tables account shop already exists; set 'tables_key1' or 'tables_key2' to change a " +
				"key, or 'tables_consistency'"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_consistency': 'local_quorum'}",
			"void"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_consistency': 'ONE'}",
			"error 2200: Invalid consistency of Azure Tables account shop: the level must be QUORUM or " +
				"LOCAL_QUORUM, or empty for the default of the nodes (tables_consistency)"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_consistency': 'QUORUM'}",
			"error 2200: Keys and the consistency of an Azure Tables account need the option 'tables_account'"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_key2': '" + given + "'}",
			"void"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_key1': 'generate'}", columns +
			", system_auth.tables_accounts.tables_key1 text\n  'shop' | '" + tablesKey(3) + "'"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_key1': 'c2VjcmV0'}",
			"error 2200: Invalid key 1 of Azure Tables account shop: " +
				"the key must be base64 of at least 16 bytes; create one with: openssl rand -base64 64"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_key1': '" + given + "'}",
			"error 2200: Keys and the consistency of an Azure Tables account need the option 'tables_account'"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'other': 'x'}",
			"error 2200: org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS"},
		{"cassandra", "ALTER ROLE ada WITH OPTIONS = {'other': 'x'}",
			"error 2200: org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS"},
		{"cassandra", "CREATE ROLE bob WITH LOGIN = true AND OPTIONS = {'tables_account': 'shop', 'tables_key1': '" +
			given + "'}",
			"error 2200: Azure Tables account shop belongs to another role"},
		{"cassandra", "CREATE ROLE bob WITH LOGIN = true AND OPTIONS = {'tables_account': 'stall', 'tables_key1': '" +
			given + "'}", "void"},
		{"bob", "ALTER ROLE bob WITH OPTIONS = {'tables_account': 'stall', 'tables_key2': 'generate'}",
			"error 2100: You aren't allowed to alter OPTIONS"},
		{"bob", "ALTER ROLE ada WITH OPTIONS = {'drop_tables_account': 'shop'}",
			"error 2100: User bob does not have sufficient privileges to perform the requested operation"},
		{"cassandra", "GRANT ALTER ON ALL ROLES TO bob", "void"},
		{"bob", "ALTER ROLE cassandra WITH OPTIONS = {'tables_account': 'mine', 'tables_key1': '" + given + "'}",
			"error 2100: Only superusers can alter a role with superuser status"},
		{"bob", "ALTER ROLE ada WITH OPTIONS = {'drop_tables_account': 'shop', 'tables_key1': ''}",
			"error 2200: Option 'drop_tables_account' cannot be combined with others of Azure Tables accounts"},
		{"bob", "ALTER ROLE ada WITH OPTIONS = {'drop_tables_account': 'nosuch'}",
			"error 2200: Azure Tables account nosuch doesn't exist"},
		{"bob", "ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop', 'tables_key1': ''}", "void"},
		{"bob", "ALTER ROLE ada WITH OPTIONS = {'drop_tables_account': 'shop'}", "void"},
		{"cassandra", "DROP ROLE bob", "void"},
	} {
		s.user = c.user
		if got := s.execute(c.text); got != c.want {
			t.Errorf("%s as %s:\n%s\nwant\n%s", c.text, c.user, got, c.want)
		}
		if list := s.execute("LIST ROLES"); strings.Contains(list, given) || strings.Contains(list, "tables_") {
			t.Error(list)
		}
		if a, ok := s.m.roles.TablesAccount("shop"); strings.Contains(c.text, "'generate'") && c.user == "cassandra" &&
			(!ok || a.Keys != [2]string{tablesKey(3), given} || a.Consistency != auth.TablesLocalQuorum) {
			t.Errorf("after the rotation: %v", a.Keys)
		}
	}
	if s.m.roles.HasTablesAccounts() {
		t.Errorf("left: %v", s.m.roles.TablesAccounts())
	}
}

// TestOtherOptionsRemain checks that a change of an account keeps the options of a role.
func TestOtherOptionsRemain(t *testing.T) {
	s := newSession("authentication authorization")
	s.user = "cassandra"
	if err := s.m.ProposeRoles(context.Background(), &auth.CreateRole{Name: "ada",
		Settings: auth.RoleSettings{Options: map[string]string{"a": "b"}}}); err != nil {
		t.Fatal(err)
	}
	s.execute("ALTER ROLE ada WITH OPTIONS = {'tables_account': 'shop'}")
	if r, _ := s.m.roles.Role("ada"); len(r.Options) != 1 || !s.m.roles.HasTablesAccounts() {
		t.Errorf("options %v, accounts %v", r.Options, s.m.roles.TablesAccounts())
	}
}
