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
	return []string{"\x00", "a\x00b", "\u202eelor", "é", "e\u0301", "日本", "🔑", "a\nb", `a"b`, "a'b", "a/b", "roles/a", " ", "\ufeff", "\xff\xfe", "\xc0\x80",
		strings.Repeat("n", 60<<10), strings.Repeat("n", 65_535), strings.Repeat("\x00", 64<<10), strings.Repeat("n", 1<<20)}
}

// Statements with malformed and long names are executed, or refused with a text, and lose nothing: what they store survives encoding.
func TestNamesWithAnyCharacters(t *testing.T) {
	for i, name := range badNames() {
		s := newSession("authentication authorization")
		s.user = "cassandra"
		role := quoted(name)
		name = string([]rune(name)) // each malformed byte is U+FFFD
		created := s.execute("CREATE ROLE " + role + " WITH PASSWORD = " + role + " AND LOGIN = true")
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
		for _, text := range []string{"GRANT CREATE ON ALL ROLES TO " + role, "CREATE ROLE member", "GRANT " + role + " TO member", "ADD IDENTITY " + role + " TO ROLE " + role} {
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
		if !exists || !r.Login || !bound || identity != name || fmt.Sprint(again.RolesOf("member")) != fmt.Sprint(s.m.roles.RolesOf("member")) {
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

// FuzzStatements executes statements with any names, option keys and values as a superuser and as a role without permissions. None
// panics, all errors have a text, and the second changes nothing.
func FuzzStatements(f *testing.F) {
	for _, option := range []string{"PASSWORD = 'x'", "HASHED PASSWORD = '$2a$10$'", "OPTIONS = {'a': 'b'}", "OPTIONS = {'tables_account': 'x', 'tables_key1': '='}",
		"ACCESS TO DATACENTERS {'x'}", "ACCESS FROM CIDRS {''}", "GENERATED PASSWORD", "LOGIN = maybe", "OPTIONS = {}", "OPTIONS = {1: null}"} {
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
			for _, text := range []string{"CREATE ROLE " + role + " WITH " + option, "ALTER ROLE " + role + " WITH " + option, "ADD IDENTITY " + role + " TO ROLE " + role,
				"GRANT SELECT ON ALL KEYSPACES TO " + role, "GRANT " + role + " TO " + role, "LIST ALL PERMISSIONS OF " + role, "LIST ROLES OF " + role,
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
