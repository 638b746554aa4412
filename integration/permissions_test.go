//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/cqlclient"
	"cqld/internal/matrix"
)

// TestPermissionMatrix plays the permission matrix on a server whose address is in CQLD_ORACLE_AUTH, and whose
// superuser is cassandra with the password cassandra; with -rewrite, it records the answers.
func TestPermissionMatrix(t *testing.T) {
	address := os.Getenv("CQLD_ORACLE_AUTH")
	if address == "" {
		t.Skip("CQLD_ORACLE_AUTH is not set: package query plays the matrix on cqld")
	}
	const dir = "../internal/matrix/testdata"
	m, err := matrix.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	target := newServer(t, address)
	if err := m.Reset(target); err != nil {
		t.Fatal(err)
	}
	cells := 0
	datadriven.Walk(t, filepath.Join(dir, "rows"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r, err := matrix.ParseRow(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			answers, err := m.Play(target, r)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			cells += len(answers)
			return m.Format(answers)
		})
	})
	datadriven.RunTest(t, filepath.Join(dir, "scenarios.txt"), func(t *testing.T, d *datadriven.TestData) string {
		steps, err := m.PlayScenario(target, d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return matrix.FormatSteps(steps)
	})
	version, err := target.Query(m.Users[0].Name, "SELECT release_version FROM system.local WHERE key = 'local'")
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, filepath.Join(dir, "version.txt"),
		func(*testing.T, *datadriven.TestData) string { return version })
	t.Logf("%d cells", cells)
}

// authServer is a server with authentication, as a matrix.Target.
type authServer struct {
	address  string
	admin    *cqlclient.Conn
	users    map[string]*cqlclient.Conn
	prepared map[string]*cqlclient.Prepared
}

func newServer(t *testing.T, address string) *authServer {
	t.Helper()
	admin, err := cqlclient.DialAs(address, 5, "cassandra", "cassandra")
	for range 60 { // a new cluster creates its superuser some seconds after it serves
		if err == nil {
			break
		}
		time.Sleep(time.Second)
		admin, err = cqlclient.DialAs(address, 5, "cassandra", "cassandra")
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &authServer{address: address, admin: admin, users: map[string]*cqlclient.Conn{},
		prepared: map[string]*cqlclient.Prepared{}}
	t.Cleanup(func() {
		admin.Close()
		for _, c := range s.users {
			c.Close()
		}
	})
	return s
}

// Admin implements matrix.Target.
func (s *authServer) Admin(text string) error {
	a, err := s.admin.Query(text, cqlclient.Options{})
	if err == nil && a.Err != nil {
		err = a.Err
	}
	return err
}

// as returns the connection of a user.
func (s *authServer) as(user string) (*cqlclient.Conn, error) {
	if c := s.users[user]; c != nil {
		return c, nil
	}
	c, err := cqlclient.DialAs(s.address, 5, user, matrix.Password)
	if err == nil {
		s.users[user] = c
	}
	return c, err
}

// Query implements matrix.Target.
func (s *authServer) Query(user, text string) (string, error) {
	c, err := s.as(user)
	if err != nil {
		return "", err
	}
	a, err := c.Query(text, cqlclient.Options{})
	if err == nil && a.Kind == cqlclient.SetKeyspace { // later statements must not depend on it
		delete(s.users, user)
		c.Close()
	}
	return answerText(a), err
}

// Prepare implements matrix.Target.
func (s *authServer) Prepare(user, name, text string) (string, error) {
	c, err := s.as(user)
	if err != nil {
		return "", err
	}
	a, err := c.Prepare(text)
	if err == nil && a.Err == nil {
		s.prepared[user+" "+name] = a.Prepared
	}
	return answerText(a), err
}

// Execute implements matrix.Target.
func (s *authServer) Execute(user string, names ...string) (string, error) {
	c, err := s.as(user)
	if err != nil {
		return "", err
	}
	var statements []cqlclient.Statement
	for _, name := range names {
		p := s.prepared[user+" "+name]
		if p == nil {
			return "", fmt.Errorf("%s is not prepared", name)
		}
		if len(names) == 1 {
			a, err := c.Execute(p, cqlclient.Options{})
			return answerText(a), err
		}
		statements = append(statements, cqlclient.Statement{ID: p.ID})
	}
	a, err := c.Batch(0, statements, cqlclient.Options{})
	return answerText(a), err
}

// answerText renders an answer as matrix.Target does.
func answerText(a *cqlclient.Answer) string {
	switch {
	case a == nil:
		return ""
	case a.Err != nil:
		return a.Err.Error()
	}
	var b strings.Builder
	b.WriteString("OK")
	for _, row := range a.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = a.Columns[i].Type.Text(cell)
		}
		b.WriteString(" (" + strings.Join(cells, ", ") + ")")
	}
	return b.String()
}
