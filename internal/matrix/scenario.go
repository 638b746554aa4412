package matrix

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// Step is a step of a scenario with its answer.
type Step struct{ Step, Answer string }

// FormatSteps renders steps as scenarios.txt contains them. The answer is indented by two spaces.
func FormatSteps(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s\n  %s\n", s.Step, s.Answer)
	}
	return b.String()
}

// PlayScenario executes the steps of a "scenario" directive, one on each line, and returns those of the user:
//
//	admin: STATEMENT         a superuser executes a statement
//	me: STATEMENT            a user without other grants executes it
//	me prepare NAME: STATEMENT
//	me execute NAME…         executes a prepared statement, or several as a batch
//
// Names of prepared statements are per scenario and chosen in the file.
func (m *Matrix) PlayScenario(t Target, d *datadriven.TestData) ([]Step, error) {
	if d.Cmd != "scenario" {
		return nil, fmt.Errorf("unknown directive %q", d.Cmd)
	}
	// The first user has no grants.
	me := m.Users[0].Name
	var steps []Step
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "admin: "); ok {
			// Steps of the superuser must succeed, and have no answer in the file.
			if err := t.Admin(strings.ReplaceAll(text, Me, me)); err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			continue
		}
		answer, err := step(t, me, strings.ReplaceAll(line, Me, me))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		steps = append(steps, Step{line, Anonymous(answer, me)})
	}
	return steps, nil
}

// step executes a step of the user. An unknown step is an error of the file.
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
