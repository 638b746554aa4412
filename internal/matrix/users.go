package matrix

import (
	"fmt"
	"io/fs"
	"strings"
)

// User is a role that executes the statements of the matrix. Labels are unique; names are mx_user000 and so on, in the
// order of users.txt.
type User struct {
	Label string // its grants, as in users.txt
	Name  string // of the role
}

// statements returns the statements that create the user with its grants. They can be repeated. IF NOT EXISTS leaves an
// existing role unchanged.
func (u *User) statements() []string {
	create := fmt.Sprintf("CREATE ROLE IF NOT EXISTS %s WITH LOGIN = true AND SUPERUSER = %t AND PASSWORD = '%s'",
		u.Name, u.Label == "superuser", Password)
	return append([]string{create}, u.grants()...)
}

// grants returns the GRANT statements of the user. A label is "none", "superuser", or grants joined by " + ", such as
// "ALL ON ALL ROLES + member of mx_reader".
func (u *User) grants() []string {
	var out []string
	for part := range strings.SplitSeq(u.Label, " + ") {
		switch role, member := strings.CutPrefix(part, "member of "); {
		case member:
			out = append(out, fmt.Sprintf("GRANT %s TO %s", role, u.Name))
		// These two words stand for no grant.
		case part != "none" && part != "superuser":
			out = append(out, fmt.Sprintf("GRANT %s TO %s", part, u.Name))
		}
	}
	return out
}

// Password is the password of every user.
const Password = "matrix"

// Matrix is the users and the schema that all rows share. It is immutable after Load.
type Matrix struct {
	Users []*User
	// Statements that do nothing if the object exists.
	schema []string
}

// Load reads users.txt and schema.txt in the directory testdata. The first user must be the one without grants:
// scenarios use it.
func Load(testdata fs.FS) (*Matrix, error) {
	users, err := lines(testdata, "users.txt")
	if err != nil {
		return nil, err
	}
	schema, err := lines(testdata, "schema.txt")
	if err != nil {
		return nil, err
	}
	m := &Matrix{schema: schema}
	known := map[string]bool{}
	for i, label := range users {
		if known[label] {
			return nil, fmt.Errorf("matrix: two users %q", label)
		}
		known[label] = true
		// Names are numbers, because labels are no names of roles.
		m.Users = append(m.Users, &User{Label: label, Name: fmt.Sprintf("mx_user%03d", i)})
	}
	return m, nil
}

// lines returns the lines of a file without comments and empty lines. A line that begins with a space continues the
// previous one. Long lines of schema.txt are folded this way.
func lines(testdata fs.FS, file string) ([]string, error) {
	text, err := fs.ReadFile(testdata, file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") && len(out) > 0:
			out[len(out)-1] += " " + trimmed
		default:
			out = append(out, trimmed)
		}
	}
	return out, nil
}
