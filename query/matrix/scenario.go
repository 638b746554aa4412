package matrix

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// PlayScenario executes the steps of a "scenario" directive, one on each line, and returns their answers:
//
//	admin: STATEMENT         a superuser executes a statement
//	me: STATEMENT            a user without other grants executes it
//	me prepare NAME: STATEMENT
//	me execute NAME…         executes a prepared statement, or several as a batch
func (m *Matrix) PlayScenario(t Target, d *datadriven.TestData) (string, error) {
	if d.Cmd != "scenario" {
		return "", fmt.Errorf("unknown directive %q", d.Cmd)
	}
	me := m.Users[0].Name
	var b strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "admin: "); ok {
			if err := t.Admin(strings.ReplaceAll(text, Me, me)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			continue
		}
		answer, err := step(t, me, strings.ReplaceAll(line, Me, me))
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		fmt.Fprintf(&b, "%s\n  %s\n", line, Anonymous(answer, me))
	}
	return b.String(), nil
}

// step executes a step of the user.
func step(t Target, user, line string) (string, error) {
	if text, ok := strings.CutPrefix(line, "me: "); ok {
		return t.Query(user, text)
	}
	if rest, ok := strings.CutPrefix(line, "me prepare "); ok {
		if name, text, ok := strings.Cut(rest, ": "); ok {
			return t.Prepare(user, name, text)
		}
	}
	if names, ok := strings.CutPrefix(line, "me execute "); ok {
		return t.Execute(user, strings.Fields(names)...)
	}
	return "", fmt.Errorf("unknown step")
}
