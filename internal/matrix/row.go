package matrix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// Row is a statement of the matrix. Statement may have several lines, and $me.
type Row struct {
	Statement string
	// In order; $me is replaced.
	undo []string // executed by a superuser after each success
	// Options of the row, see the package comment.
	reset     bool
	rows      bool
	unordered bool
}

// ParseRow returns the row of a "row" directive. It does not change d.
func ParseRow(d *datadriven.TestData) (*Row, error) {
	if d.Cmd != "row" {
		return nil, fmt.Errorf("unknown directive %q", d.Cmd)
	}
	r := &Row{reset: d.HasArg("reset"), rows: d.HasArg("rows"), unordered: d.HasArg("unordered")}
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if undo, ok := strings.CutPrefix(line, "undo: "); ok {
			r.undo = append(r.undo, undo)
			continue
		}
		// The lines of a statement come first.
		if len(r.undo) > 0 {
			return nil, fmt.Errorf("%q follows an undo", line)
		}
		r.Statement = strings.TrimSpace(r.Statement + "\n" + line)
	}
	if r.Statement == "" {
		return nil, fmt.Errorf("a row without a statement")
	}
	return r, nil
}

// As returns the statement as the user executes it.
func (r *Row) As(u *User) string { return strings.ReplaceAll(r.Statement, Me, u.Name) }

// Me stands for the name of the executing user, in statements and in answers.
const Me = "$me"

// Answers are the answers to the statement of a row, by the user's label. Every user has one.
type Answers map[string]string

// widthMax is the number of columns at which lists of users are wrapped.
const widthMax = 140

// Format renders answers, each followed by its users. The users of the most frequent answer are not listed. Frequent
// answers are last, so the few exceptions stand out.
func (m *Matrix) Format(answers Answers) string {
	var order []string
	// Labels by answer, in the order of users.txt.
	users := map[string][]string{}
	for _, u := range m.Users {
		a := answers[u.Label]
		if users[a] == nil {
			order = append(order, a)
		}
		users[a] = append(users[a], u.Label)
	}
	// The most frequent answer is last.
	slices.SortStableFunc(order, func(a, b string) int { return len(users[a]) - len(users[b]) })
	var b strings.Builder
	for i, a := range order {
		b.WriteString(a + "\n")
		if i == len(order)-1 {
			fmt.Fprintf(&b, "  the other %d\n", len(users[a]))
			break
		}
		line := " "
		for j, label := range users[a] {
			if j < len(users[a])-1 {
				label += ";"
			}
			if line != " " && len(line)+1+len(label) > widthMax {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + label
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// Parse is the inverse of Format. It returns an error unless the text has exactly one answer for each user. Lists that
// were wrapped have a semicolon at the end of a line.
func (m *Matrix) Parse(text string) (Answers, error) {
	answers := Answers{}
	// The answer of the lines that follow, and the answer and number of the users that are not listed.
	answer, others, left := "", "", 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		list, ok := strings.CutPrefix(line, "  ")
		if !ok {
			answer = line
			continue
		}
		if n, ok := strings.CutPrefix(list, "the other "); ok {
			var err error
			if left, err = strconv.Atoi(n); err != nil {
				return nil, err
			}
			others = answer
			continue
		}
		for label := range strings.SplitSeq(strings.TrimSuffix(list, ";"), "; ") {
			if _, twice := answers[label]; twice || !m.has(label) {
				return nil, fmt.Errorf("user %q is unknown, or has two answers", label)
			}
			answers[label] = answer
		}
	}
	if len(answers)+left != len(m.Users) {
		return nil, fmt.Errorf("%d answers for %d users", len(answers)+left, len(m.Users))
	}
	for _, u := range m.Users {
		if _, ok := answers[u.Label]; !ok {
			answers[u.Label] = others
		}
	}
	return answers, nil
}

// has reports whether a user with this label exists.
func (m *Matrix) has(label string) bool {
	return slices.ContainsFunc(m.Users, func(u *User) bool { return u.Label == label })
}
