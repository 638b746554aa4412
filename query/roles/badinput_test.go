package roles_test

import (
	"fmt"
	"strings"
	"testing"

	"cqld/auth"
)

// quoted returns a string literal of CQL.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// badNames returns names of roles that clients may send: all characters are possible.
func badNames() []string {
	return []string{"\x00", "a\x00b", "\u202eelor", "é", "e\u0301", "日本", "🔑", "a\nb", `a"b`, "a'b", "a/b", "roles/a",
		" ", "\ufeff", "\xff\xfe", "\xc0\x80",
		strings.Repeat("n", 60<<10), strings.Repeat("n", 65_535), strings.Repeat("\x00", 64<<10),
		strings.Repeat("n", 1<<20)}
}

// Statements with malformed and long names are executed, or refused with a message, and lose nothing: what they store
// survives encoding.
func TestNamesWithAnyCharacters(t *testing.T) {
	for i, name := range badNames() {
		s := newSession("authentication authorization")
		s.user = "cassandra"
		role := quoted(name)
		name = string([]rune(name)) // each malformed byte is U+FFFD
		password := role
		if len(name) > 72 {
			password = "'y'" // a longer one is refused: TestPasswordsAndHashesAreBounded
		}
		created := s.execute("CREATE ROLE " + role + " WITH PASSWORD = " + password + " AND LOGIN = true")
		if created != "void" {
			if !strings.HasPrefix(created, "error 2200: Key length of ") || len(name) < 60<<10 {
				t.Errorf("%d: CREATE ROLE: %.200q", i, created)
			}
			if names := s.m.roles.RoleNames(); len(names) != 1 {
				t.Errorf("%d: a refused statement created %d roles", i, len(names)-1)
			}
			continue
		}
		other := newSessionOf(s, name)
		if got := other.execute("ALTER ROLE " + role + " WITH PASSWORD = 'x'"); got != "void" {
			t.Errorf("%d: the role does not change its password: %.200q", i, got)
		}
		if got := other.execute("CREATE ROLE x"); !strings.HasPrefix(got, "error 2100") {
			t.Errorf("%d: the role has permissions: %.200q", i, got)
		}
		for _, text := range []string{"GRANT CREATE ON ALL ROLES TO " + role, "CREATE ROLE member", "GRANT " + role +
			" TO member", "ADD IDENTITY " + role + " TO ROLE " + role} {
			if got := s.execute(text); got != "void" {
				t.Errorf("%d: %.100q: %.200q", i, text, got)
			}
		}
		encoded, err := auth.Encode(s.m.roles)
		if err != nil {
			t.Fatal(err)
		}
		again, err := auth.Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		r, exists := again.Role(name)
		identity, bound := again.Identity(name)
		if !exists || !r.Login || !bound || identity != name ||
			fmt.Sprint(again.RolesOf("member")) != fmt.Sprint(s.m.roles.RolesOf("member")) {
			t.Errorf("%d: %.40q is lost when it is encoded: %v %v %.40q", i, name, exists, bound, identity)
		}
		if got := s.execute("DROP ROLE " + role); got != "void" {
			t.Errorf("%d: DROP ROLE: %.200q", i, got)
		}
		if _, exists := s.m.roles.Role(name); exists {
			t.Errorf("%d: the role is still there", i)
		}
	}
}

// newSessionOf returns a session of another user of the same cluster.
func newSessionOf(s *session, user string) *session {
	other := *s
	other.user = user
	return &other
}

// FuzzStatements executes statements with any names, option keys and values as a superuser and as a role without
// permissions. None panics, all errors have a message, and those of the role change nothing.
func FuzzStatements(f *testing.F) {
	for _, option := range []string{"PASSWORD = 'x'", "HASHED PASSWORD = '$2a$10$'", "OPTIONS = {'a': 'b'}",
		"OPTIONS = {'tables_account': 'x', 'tables_key1': '='}",
		"ACCESS TO DATACENTERS {'x'}", "ACCESS FROM CIDRS {''}", "GENERATED PASSWORD", "LOGIN = maybe", "OPTIONS = {}",
		"OPTIONS = {1: null}"} {
		f.Add("a", option)
	}
	for _, name := range badNames() {
		if len(name) < 1000 {
			f.Add(name, "PASSWORD = "+quoted(name)+" AND OPTIONS = {"+quoted(name)+": "+quoted(name)+"}")
		}
	}
	f.Fuzz(func(t *testing.T, name, option string) {
		s := newSession("authentication authorization network cidr")
		s.m.roles = mustApply(t, s.m.roles, &auth.CreateRole{Name: "mallory"})
		role := quoted(name)
		for _, user := range []string{"mallory", "cassandra"} {
			before := s.m.roles
			s.user = user
			for _, text := range []string{"CREATE ROLE " + role + " WITH " + option, "ALTER ROLE " + role + " WITH " +
				option, "ADD IDENTITY " + role + " TO ROLE " + role,
				"GRANT SELECT ON ALL KEYSPACES TO " + role, "GRANT " + role + " TO " + role,
				"LIST ALL PERMISSIONS OF " + role, "LIST ROLES OF " + role,
				"DROP IDENTITY " + role, "DROP ROLE " + role} {
				if got := s.execute(text); got == "" || strings.HasSuffix(got, ": ") {
					t.Errorf("%q: %q", text, got)
				}
			}
			if user == "mallory" && name != "mallory" && s.m.roles != before {
				t.Errorf("a role without permissions has changed roles with %q, %q", name, option)
			}
		}
		if _, err := auth.Encode(s.m.roles); err != nil {
			t.Error(err)
		}
	})
}

func mustApply(t *testing.T, d *auth.Directory, c auth.Change) *auth.Directory {
	t.Helper()
	next, err := auth.Apply(d, c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Passwords that bcrypt would truncate are refused. Hashes that make logins more expensive than the nodes' own hashes
// are reserved for superusers. Cassandra truncates such passwords silently, and accepts every cost.
func TestPasswordsAndHashesAreBounded(t *testing.T) {
	s := newSession("authentication authorization")
	s.user = "cassandra"
	hash := func(cost int) string { return fmt.Sprintf("'$2a$%02d$%s'", cost, strings.Repeat("a", 53)) }
	for _, c := range []struct{ user, text, want string }{
		{"cassandra", "CREATE ROLE a WITH LOGIN = true AND PASSWORD = '" + strings.Repeat("x", 72) + "'", "void"},
		{"cassandra", "CREATE ROLE b WITH PASSWORD = '" + strings.Repeat("x", 73) + "'",
			"error 2200: The password has 73 bytes, and bcrypt uses only the first 72"},
		{"cassandra", "CREATE USER b WITH PASSWORD '" + strings.Repeat("é", 37) + "'",
			"error 2200: The password has 74 bytes"},
		{"a", "ALTER ROLE a WITH PASSWORD = '" + strings.Repeat("x", 73) + "'",
			"error 2200: The password has 73 bytes"},
		{"a", "ALTER ROLE a WITH HASHED PASSWORD = " + hash(10), "void"},
		{"a", "ALTER ROLE a WITH HASHED PASSWORD = " + hash(11),
			"error 2100: Only superusers can set a hashed password of a cost greater than 10"},
		{"a", "ALTER USER a WITH HASHED PASSWORD " + hash(14), "error 2100: Only superusers"},
		{"cassandra", "ALTER ROLE a WITH HASHED PASSWORD = " + hash(14), "void"},
		{"cassandra", "ALTER ROLE a WITH HASHED PASSWORD = " + hash(15),
			"error 2200: The hashed password has the cost 15"},
		{"cassandra", "ALTER ROLE a WITH HASHED PASSWORD = '" + strings.Repeat("x", 60) + "'",
			"error 2200: Invalid hashed password value. Please use jBcrypt."},
	} {
		in := s
		if c.user != "cassandra" {
			in = newSessionOf(s, c.user)
		}
		if got := in.execute(c.text); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.100s\n got %s\nwant %s", c.user, c.text, got, c.want)
		}
	}
}

// Only superusers change who is a superuser: AUTHORIZE on all roles is enough neither to grant nor to revoke a role
// with that status.
func TestOnlySuperusersGrantAndRevokeSuperuserRoles(t *testing.T) {
	s := newSession("authentication authorization")
	s.user = "cassandra"
	for _, text := range []string{"CREATE ROLE root WITH SUPERUSER = true", "CREATE ROLE admins",
		"CREATE ROLE victim WITH LOGIN = true", "CREATE ROLE au WITH LOGIN = true",
		"CREATE ROLE plain", "GRANT root TO admins", "GRANT admins TO victim", "GRANT plain TO victim",
		"GRANT AUTHORIZE ON ALL ROLES TO au"} {
		if got := s.execute(text); got != "void" {
			t.Fatalf("%s: %s", text, got)
		}
	}
	au := newSessionOf(s, "au")
	for _, role := range []string{"root", "admins"} {
		for verb, word := range map[string]string{"GRANT ": " TO ", "REVOKE ": " FROM "} {
			want := "error 2100: Only superusers can " + strings.ToLower(verb) + "a role with superuser status"
			if got := au.execute(verb + role + word + "victim"); got != want {
				t.Errorf("%s%s: %s", verb, role, got)
			}
		}
	}
	if !s.m.roles.IsSuperuser("victim") {
		t.Error("victim is no superuser")
	}
	if got := au.execute("REVOKE plain FROM victim"); got != "void" {
		t.Error(got)
	}
	if got := s.execute("REVOKE admins FROM victim"); got != "void" || s.m.roles.IsSuperuser("victim") {
		t.Error(got)
	}
}
