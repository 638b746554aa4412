package query

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
)

// These tests execute the attacks of published vulnerabilities of Cassandra and Scylla against a Processor with roles
// and a CassandraAuthorizer. docs/SECURITY-GUIDE.md lists them.

// attacked is a server with a table ks.t, a superuser and a role mallory without permissions.
func attacked(t *testing.T) *matrixServer {
	t.Helper()
	s := newMatrixServer(t, loadMatrix(t))
	s.must(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
		"CREATE ROLE mallory WITH LOGIN = true AND PASSWORD = 'x'")
	return s
}

// must executes statements as the superuser.
func (s *matrixServer) must(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if answer, err := s.Query(matrixAdmin, text); err != nil || !strings.HasPrefix(answer, "OK") {
			t.Fatalf("%s: %s %v", text, answer, err)
		}
	}
}

// refused checks that a statement of mallory is refused with the beginning of an answer, and that it changes neither
// roles nor schema.
func (s *matrixServer) refused(t *testing.T, text, want string) {
	t.Helper()
	directory, definitions := s.directory, s.Schema()
	answer, err := s.Query("mallory", text)
	if err != nil || !strings.HasPrefix(answer, want) {
		t.Errorf("%s: %s %v, want %s", text, answer, err, want)
	}
	if s.directory != directory || s.Schema() != definitions {
		t.Errorf("%s has changed roles or schema", text)
	}
}

// onSystemKeyspaces returns statements of all kinds that name a keyspace, on each table of the system keyspaces.
func onSystemKeyspaces(s *schema.Schema) []string {
	var out []string
	for _, ks := range s.KeyspaceNames() {
		if !auth.IsSystemKeyspace(ks) {
			continue
		}
		for _, table := range s.Keyspace(ks).TableNames() {
			out = append(out, onSystemTable(s.Table(ks, table))...)
		}
		for _, format := range []string{"ALTER KEYSPACE %s WITH durable_writes = false", "DROP KEYSPACE %s",
			"CREATE TABLE %s.x (k int PRIMARY KEY)", "CREATE TYPE %s.x (a int)",
			"ALTER TYPE %s.x ADD b int", "DROP TYPE %s.x",
			"CREATE FUNCTION %s.f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
			"DROP FUNCTION %s.f", "CREATE AGGREGATE %s.a (int) SFUNC f STYPE int", "DROP AGGREGATE %s.a",
			"UNDROP KEYSPACE %s", "UNDROP KEYSPACE gone AS %s", "PURGE KEYSPACE %s",
			"DROP INDEX %s.i", "DROP MATERIALIZED VIEW %s.v",
			"ALTER MATERIALIZED VIEW %s.v WITH comment = 'x'", "CREATE TABLE %s.x LIKE ks.t",
			"COMMENT ON FIELD %s.x.f IS 'x'", "GRANT MODIFY ON KEYSPACE %s TO mallory",
			"REVOKE SELECT ON KEYSPACE %s FROM mallory"} {
			out = append(out, fmt.Sprintf(format, ks))
		}
	}
	return out
}

func onSystemTable(t *schema.Table) []string {
	key := t.PartitionKey[0].Name
	name := fmt.Sprintf("%s.%q", t.Keyspace, t.Name)
	out := []string{"TRUNCATE " + name, "COMMENT ON TABLE " + name + " IS 'x'", "DROP TABLE " + name,
		"UNDROP TABLE " + name, "PURGE TABLE " + name, "ALTER TABLE " + name + " ADD x int",
		"CREATE INDEX i ON " + name + " (" + key + ")",
		"CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM " + name + " WHERE " + key + " IS NOT NULL PRIMARY KEY (" +
			key + ")",
		"CREATE TRIGGER x ON " + name + " USING 'c'", "DROP TRIGGER x ON " + name, "GRANT MODIFY ON TABLE " + name +
			" TO mallory"}
	var names, nulls, where []string
	for _, c := range slices.Concat(t.PartitionKey, t.Clustering) {
		names, nulls, where = append(names, c.Name), append(nulls, "null"), append(where, c.Name+" = null")
	}
	insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", name, strings.Join(names, ", "), strings.Join(nulls, ", "))
	deletion := fmt.Sprintf("DELETE FROM %s WHERE %s", name, strings.Join(where, " AND "))
	out = append(out, insert, insert+" IF NOT EXISTS", "INSERT INTO "+name+" JSON '{}'", deletion,
		deletion+" IF EXISTS",
		"BEGIN BATCH "+insert+"; APPLY BATCH", "BEGIN UNLOGGED BATCH "+deletion+"; APPLY BATCH")
	for _, c := range t.Regulars {
		out = append(out, fmt.Sprintf("UPDATE %s SET %s = null WHERE %s", name, c.Name, strings.Join(where, " AND ")))
	}
	return out
}

// A role with all permissions on ALL KEYSPACES became superuser in Cassandra by writing the tables of system_auth. All
// kinds of statements that name a keyspace are tried on all tables of the system keyspaces.
func TestCVE2025_23015_DataGrantsDoNotReachSystemTables(t *testing.T) {
	s := attacked(t)
	s.must(t, "GRANT ALL PERMISSIONS ON ALL KEYSPACES TO mallory", "GRANT ALL PERMISSIONS ON ALL FUNCTIONS TO mallory")
	missing := statementKinds(t)
	for _, kind := range []string{"Use", "Describe", "Select", "Explain", "CreateKeyspace", "ListRoles",
		"ListPermissions", "CreateRole", "AlterRole", "DropRole",
		// they write no table; TestCVE2025_24860 and TestCVE2026_27314 have those on roles
		"GrantRole", "RevokeRole", "ListUsers", "AddIdentity", "DropIdentity"} {
		delete(missing, kind)
	}
	statements := onSystemKeyspaces(s.Schema())
	for _, text := range statements {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		delete(missing, reflect.TypeOf(stmt).Elem().Name())
		want := "UNAUTHORIZED: "
		if strings.HasPrefix(text, "DROP INDEX ") || strings.Contains(text, " MATERIALIZED VIEW ") &&
			!strings.HasPrefix(text, "CREATE ") {
			// as in Cassandra: system keyspaces have no indexes and views, so there is nothing that may be changed
			want = "INVALID: "
		}
		s.refused(t, text, want)
	}
	for kind := range missing {
		t.Errorf("no statement of kind %s is tried on system keyspaces", kind)
	}
	for _, table := range []string{"system_auth.roles", "system_auth.role_permissions", "system_auth.identity_to_role",
		"system.batches", "system.paxos"} {
		s.refused(t, "SELECT * FROM "+table, "UNAUTHORIZED: ")
	}
	if s.directory.IsSuperuser("mallory") || len(s.directory.Grants("mallory")) != 2 {
		t.Errorf("mallory has %v", s.directory.Grants("mallory"))
	}
	t.Logf("%d statements", len(statements))
}

// CVE-2025-26467 is the same attack on a version whose correction was incomplete: also prepared statements and those of
// BATCH messages are refused, and so is a statement that was prepared before REVOKE.
func TestCVE2025_26467_PreparedStatementsDoNotReachSystemTables(t *testing.T) {
	s := attacked(t)
	s.must(t, "GRANT ALL PERMISSIONS ON ALL KEYSPACES TO mallory")
	const attack = "INSERT INTO system_auth.roles (role, is_superuser, can_login) VALUES ('mallory', true, true)"
	if answer, err := s.Prepare("mallory", "attack", attack); err == nil && strings.HasPrefix(answer, "OK") {
		if answer, err := s.Execute("mallory", "attack"); err != nil || !strings.HasPrefix(answer, "UNAUTHORIZED: ") {
			t.Errorf("EXECUTE: %s %v", answer, err)
		}
		if answer, err := s.Execute("mallory", "attack", "attack"); err != nil ||
			!strings.HasPrefix(answer, "UNAUTHORIZED: ") {
			t.Errorf("BATCH: %s %v", answer, err)
		}
	} else if err != nil || !strings.HasPrefix(answer, "UNAUTHORIZED: ") && !strings.HasPrefix(answer, "INVALID: ") {
		t.Errorf("PREPARE: %s %v", answer, err)
	}
	if answer, err := s.Prepare("mallory", "write", "INSERT INTO ks.t (k, v) VALUES (1, 1)"); err != nil ||
		!strings.HasPrefix(answer, "OK") {
		t.Fatal(answer, err)
	}
	if answer, err := s.Execute("mallory", "write"); err != nil || answer != "OK" {
		t.Fatal(answer, err)
	}
	s.must(t, "REVOKE MODIFY ON ALL KEYSPACES FROM mallory")
	for _, names := range [][]string{{"write"}, {"write", "write"}} {
		if answer, err := s.Execute("mallory", names...); err != nil || !strings.HasPrefix(answer, "UNAUTHORIZED: ") {
			t.Errorf("after REVOKE: %s %v", answer, err)
		}
	}
	if s.directory.IsSuperuser("mallory") {
		t.Error("mallory is a superuser")
	}
}

// In Cassandra, CREATE on all roles was enough to bind an identity of one's own certificate to any role.
func TestCVE2026_27314_IdentitiesNeedAuthorizeOnTheRole(t *testing.T) {
	s := attacked(t)
	s.must(t, "CREATE ROLE victim WITH LOGIN = true", "CREATE ROLE other", "GRANT CREATE ON ALL ROLES TO mallory")
	for _, role := range []string{"victim", matrixAdmin} {
		s.refused(t, "ADD IDENTITY 'spiffe://mallory' TO ROLE '"+role+"'", "UNAUTHORIZED: ")
		s.refused(t, "ADD IDENTITY IF NOT EXISTS 'spiffe://mallory' TO ROLE '"+role+"'", "UNAUTHORIZED: ")
	}
	s.must(t, "ADD IDENTITY 'spiffe://victim' TO ROLE 'victim'")
	s.refused(t, "DROP IDENTITY 'spiffe://victim'", "UNAUTHORIZED: ") // to bind it again
	s.must(t, "GRANT AUTHORIZE ON ALL ROLES TO mallory")
	s.refused(t, "ADD IDENTITY 'spiffe://mallory' TO ROLE '"+matrixAdmin+"'",
		"UNAUTHORIZED: Only superusers can bind identities")
	if answer, err := s.Query("mallory", "ADD IDENTITY 'spiffe://app' TO ROLE 'victim'"); err != nil || answer != "OK" {
		t.Errorf("with AUTHORIZE: %s %v", answer, err)
	}
}

// In Cassandra, a role could lift its own restrictions to data centers and CIDR groups.
func TestCVE2025_24860_RolesDoNotLiftTheirOwnRestrictions(t *testing.T) {
	s := attacked(t)
	if err := s.ProposeRoles(t.Context(), &auth.SetCIDRGroup{Name: "office",
		CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}); err != nil {
		t.Fatal(err)
	}
	s.must(t, "CREATE ROLE inner WITH LOGIN = true AND ACCESS TO DATACENTERS {'datacenter1'}",
		"CREATE ROLE admins WITH SUPERUSER = true",
		"ALTER ROLE mallory WITH ACCESS TO DATACENTERS {'datacenter1'} AND ACCESS FROM CIDRS {'office'}",
		"GRANT ALL PERMISSIONS ON ROLE mallory TO mallory", "GRANT ALTER ON ALL ROLES TO mallory",
		"GRANT ALL PERMISSIONS ON ALL KEYSPACES TO mallory")
	for _, role := range []string{"mallory", "inner"} {
		for _, option := range []string{"ACCESS TO ALL DATACENTERS", "ACCESS TO DATACENTERS {'datacenter1'}",
			"ACCESS FROM ALL CIDRS", "ACCESS FROM CIDRS {'office'}",
			"SUPERUSER = true", "PASSWORD = 'y' AND ACCESS TO ALL DATACENTERS",
			"LOGIN = true AND ACCESS FROM ALL CIDRS", "PASSWORD = 'y' AND SUPERUSER = true"} {
			s.refused(t, "ALTER ROLE "+role+" WITH "+option, "UNAUTHORIZED: ")
			s.refused(t, "ALTER ROLE IF EXISTS "+role+" WITH "+option, "UNAUTHORIZED: ")
		}
	}
	for _, text := range []string{"ALTER USER mallory SUPERUSER", "GRANT admins TO mallory",
		"ALTER ROLE mallory WITH LOGIN = false", "DROP ROLE admins",
		"UPDATE system_auth.network_permissions SET dcs = null WHERE role = 'mallory'",
		"DELETE FROM system_auth.cidr_permissions WHERE role = 'mallory'"} {
		s.refused(t, text, "UNAUTHORIZED: ")
	}
	if s.directory.MayAccess("mallory", "datacenter2") || s.directory.IsSuperuser("mallory") {
		t.Error("mallory has lifted a restriction")
	}
	if answer, err := s.Query("mallory", "ALTER ROLE mallory WITH PASSWORD = 'mine'"); err != nil || answer != "OK" {
		t.Errorf("a role changes its own password: %s %v", answer, err)
	}
}

// A script in a user-defined function escaped from its sandbox. cqld runs functions in interpreters that have no access
// to the process: nothing in a function reaches files, processes, the environment or other code. Package udf has the
// tests of each language.
func TestCVE2021_44521_FunctionsStayInTheirSandbox(t *testing.T) {
	s := attacked(t)
	for _, language := range []string{"java", "javascript", "lua", "wasm"} {
		text := "CREATE OR REPLACE FUNCTION ks.f (a text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE " +
			language +
			" AS 'java.lang.Runtime.getRuntime().exec(\"id\")'"
		if answer, err := s.Query(matrixAdmin, text); err != nil || !strings.HasPrefix(answer, "INVALID: ") {
			t.Errorf("%s: %s %v", language, answer, err)
		}
		s.refused(t, text, "UNAUTHORIZED: ")
	}
	s.must(t, "INSERT INTO ks.t (k, v) VALUES (1, 1)")
	definition := "CREATE OR REPLACE FUNCTION ks.escape (a int) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS $$ "
	for _, body := range []string{"return os.getenv('PATH')", "os.execute('id') return 'x'",
		"return io.open('/etc/passwd'):read('*a')", "return require('os').getenv('PATH')",
		"return tostring(package.loaded)", "return debug.getinfo(1).source", "return load('return 1')()",
		"return loadstring('return 1')()", "dofile('/etc/passwd') return 'x'",
		"return string.dump(function() end)", "return collectgarbage('count')", "return getmetatable('').__index.os"} {
		answer, err := s.Query(matrixAdmin, definition+body+" $$")
		if err == nil && answer == "OK" {
			answer, err = s.Query(matrixAdmin, "SELECT ks.escape(1) FROM ks.t")
		}
		var failed *invalid.FunctionFailure
		if err == nil && strings.HasPrefix(answer, "OK") || err != nil && !errors.As(err, &failed) {
			t.Errorf("%s: %s %v", body, answer, err)
		}
	}
	for _, text := range []string{"SELECT ks.f('x') FROM ks.t", "CREATE AGGREGATE ks.a (int) SFUNC f STYPE int",
		"CREATE TRIGGER x ON ks.t USING 'evil.Class'",
		"ALTER TABLE ks.t ALTER v MASKED WITH ks.f()", "CREATE CUSTOM INDEX i ON ks.t (v) USING 'evil.Class'",
		"INSERT INTO ks.t (k, v) VALUES (1, ks.f('x'))"} {
		if answer, err := s.Query(matrixAdmin, text); err != nil || strings.HasPrefix(answer, "OK") {
			t.Errorf("%s: %s %v", text, answer, err)
		}
	}
}

// A huge chunk_length_in_kb made Scylla's nodes allocate it. Numbers of table options are checked before the table
// exists.
func TestScylla9933_TableOptionsAreRangeChecked(t *testing.T) {
	s := attacked(t)
	for _, option := range []string{
		"compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '2147483648'}",
		"compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '2147483647'}",
		"compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '-1'}",
		"compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '99999999999999999999'}",
		"compression = {'class': 'java.lang.Runtime'}",
		"compression = {'class': 'LZ4Compressor', 'min_compress_ratio': '-1'}",
		"compaction = {'class': 'evil.Class'}", "compaction = {'class': 'SizeTieredCompactionStrategy', " +
			"'min_threshold': '-1'}",
		"bloom_filter_fp_chance = -2", "bloom_filter_fp_chance = 1e-300", "crc_check_chance = 2",
		"default_time_to_live = -1",
		"default_time_to_live = 2147483647", "gc_grace_seconds = -1", "memtable_flush_period_in_ms = -1",
		"min_index_interval = 0", "min_index_interval = -2147483648",
		"max_index_interval = 1 AND min_index_interval = 2", "caching = {'keys': 'ALL', 'rows_per_partition': '-1'}",
		"speculative_retry = '101p'",
		"additional_write_policy = '-1ms'", "memtable = 'evil.Class'",
	} {
		for _, text := range []string{"ALTER TABLE ks.t WITH " + option,
			"CREATE TABLE ks.x (k int PRIMARY KEY) WITH " + option} {
			before := s.Schema()
			answer, err := s.Query(matrixAdmin, text)
			if err != nil || !strings.HasPrefix(answer, "CONFIG_ERROR: ") && !strings.HasPrefix(answer, "INVALID: ") &&
				!strings.HasPrefix(answer, "SYNTAX_ERROR: ") {
				t.Errorf("%s: %s %v", text, answer, err)
			}
			if s.Schema() != before {
				t.Errorf("%s has changed the schema", text)
			}
		}
	}
}
