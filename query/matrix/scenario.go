package matrix

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// PlayScenario executes the steps of a "scenario" directive, one on each line, and returns their answers:
//
//	admin STATEMENT          a superuser executes a statement
//	USER: STATEMENT          the user executes it
//	USER prepare NAME: STATEMENT
//	USER execute NAME…       executes a prepared statement, or several as a batch
func PlayScenario(t Target, d *datadriven.TestData) (string, error) {
	if d.Cmd != "scenario" {
		return "", fmt.Errorf("unknown directive %q", d.Cmd)
	}
	var b strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "admin "); ok {
			if err := t.Admin(text); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			continue
		}
		answer, err := step(t, line)
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		fmt.Fprintf(&b, "%s\n  %s\n", line, strings.ReplaceAll(answer, "\n", " "))
	}
	return b.String(), nil
}

// step executes a step of a user.
func step(t Target, line string) (string, error) {
	head, text, ok := strings.Cut(line, ": ")
	words := strings.Fields(head)
	switch {
	case ok && len(words) == 1:
		return t.Query(words[0], text)
	case ok && len(words) == 3 && words[1] == "prepare":
		return t.Prepare(words[0], words[2], text)
	case !ok && len(words) >= 3 && words[1] == "execute":
		return t.Execute(words[0], words[2:]...)
	}
	return "", fmt.Errorf("unknown step")
}
