package matrix

import (
	"fmt"
	"strings"
)

// Target executes the statements of a matrix. Its errors are failures of the connection, never responses of the server.
type Target interface {
	// Admin executes a statement as a superuser.
	Admin(text string) error
	// Query executes a statement as the user, and returns "OK", with the rows if the statement has any, or the error
	// with the name of its code.
	Query(user, text string) (string, error)
	// Prepare prepares a statement as the user.
	Prepare(user, name, text string) (string, error)
	// Execute executes statements that the user prepared: one, or several as a batch.
	Execute(user string, names ...string) (string, error)
}

// Reset creates the missing parts of the schema, the users and their grants. It must be called before the first row,
// and is safe to repeat.
func (m *Matrix) Reset(t Target) error {
	for _, text := range m.schema {
		if err := t.Admin(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	for _, u := range m.Users {
		// Statements for existing objects do nothing, except GRANT of a role, which returns an error.
		for _, text := range u.statements() {
			if err := t.Admin(text); err != nil && !strings.Contains(err.Error(), " is a member of ") {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
	}
	return nil
}

// Play executes the statement of a row as each user. Users are played in their order, and each success is undone before
// the next user: every user finds the same schema.
func (m *Matrix) Play(t Target, r *Row) (Answers, error) {
	answers := Answers{}
	for _, u := range m.Users {
		answer, err := t.Query(u.Name, r.As(u))
		if err != nil {
			return nil, fmt.Errorf("%s as %s: %w", r.Statement, u.Label, err)
		}
		ok := strings.HasPrefix(answer, "OK")
		if ok && !r.rows {
			answer = "OK"
		}
		// Cassandra and cqld may name different ones of several missing permissions.
		if r.unordered {
			answer = withoutPermission(answer)
		}
		answers[u.Label] = Anonymous(answer, u.Name)
		// A refused statement has changed nothing, so there is nothing to undo.
		if !ok {
			continue
		}
		for _, undo := range r.undo {
			if err := t.Admin(strings.ReplaceAll(undo, Me, u.Name)); err != nil {
				return nil, fmt.Errorf("%s, after %s as %s: %w", undo, r.Statement, u.Label, err)
			}
		}
		if r.reset {
			if err := m.Reset(t); err != nil {
				return nil, fmt.Errorf("after %s as %s: %w", r.Statement, u.Label, err)
			}
		}
	}
	return answers, nil
}

// withoutPermission removes the name of the missing permission from an answer, unless it is AUTHORIZE, which is checked
// first. Cassandra checks the permissions of GRANT in an order that differs from process to process. For example, GRANT
// needs both AUTHORIZE and the granted permission.
func withoutPermission(answer string) string {
	before, rest, ok := strings.Cut(answer, " has no ")
	_, after, permission := strings.Cut(rest, " permission on ")
	if !ok || !permission || strings.HasPrefix(rest, "AUTHORIZE ") {
		return answer
	}
	return before + " has no (one of the permissions) permission on " + after
}

// Anonymous replaces the name of the executing user in an answer. It also joins the lines of the answer, which is one
// line in the file.
func Anonymous(answer, user string) string {
	return strings.ReplaceAll(strings.ReplaceAll(answer, "\n", " "), user, Me)
}
