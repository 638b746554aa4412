package roles_test

import "testing"

// TestGeneratedPasswordsAndSuperusers checks the statements that Cassandra 5.0 does not have.
func TestGeneratedPasswordsAndSuperusers(t *testing.T) {
	const (
		generated  = "rows system_auth.roles.generated_password text\n  'a generated password'"
		superusers = "rows system_auth.roles.role text\n  'ada'\n  'bob'\n  'cassandra'"
	)
	s := newSession("authentication authorization")
	for _, c := range []struct{ user, text, want string }{
		{"cassandra", "CREATE ROLE ada WITH GENERATED PASSWORD AND LOGIN = true", generated},
		{"cassandra", "CREATE ROLE IF NOT EXISTS ada WITH GENERATED PASSWORD", "void"},
		{"cassandra", "CREATE USER bob WITH GENERATED PASSWORD SUPERUSER", generated},
		{"cassandra", "ALTER ROLE ada WITH GENERATED PASSWORD", generated},
		{"ada", "ALTER USER ada WITH GENERATED PASSWORD", generated},
		{"ada", "ALTER ROLE bob WITH GENERATED PASSWORD",
			"error 2100: User ada does not have sufficient privileges to perform the requested operation"},
		{"cassandra", "CREATE ROLE eve WITH GENERATED PASSWORD AND PASSWORD = 'x'",
			"error 2000: Options 'password' and 'generated password' are mutually exclusive"},
		{"cassandra", "CREATE ROLE eve WITH GENERATED PASSWORD AND HASHED PASSWORD = '$2a$10$abcdefghijklmnopqrstuv'",
			"error 2000: Options 'hashed password' and 'generated password' are mutually exclusive"},
		{"cassandra", "CREATE ROLE nologin WITH GENERATED PASSWORD AND LOGIN = false", generated},
		{"cassandra", "CREATE ROLE eve WITH GENERATED PASSWORD AND GENERATED PASSWORD",
			"error 2000: Multiple definition for property 'GENERATED_PASSWORD'"},
		{"cassandra", "GRANT bob TO ada", "void"},
		{"cassandra", "LIST SUPERUSERS", superusers},
		{"ada", "LIST SUPERUSERS", superusers},
	} {
		s.user = c.user
		if got := s.execute(c.text); got != c.want {
			t.Errorf("%s as %s:\n%s\nwant\n%s", c.text, c.user, got, c.want)
		}
	}
	if r, ok := s.m.roles.Role("ada"); !ok || r.Hash != "hash of a generated password" {
		t.Errorf("%+v", r)
	}
	anonymous := newSession("")
	if got := anonymous.execute("CREATE ROLE x WITH GENERATED PASSWORD"); got != "error 2200: "+
		"org.apache.cassandra.auth.CassandraRoleManager doesn't support GENERATED_PASSWORD" {
		t.Error(got)
	}
}
