package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// Difference is an entry of differences.txt: how the answers to a statement, or to a step of a scenario, differ from
// Cassandra's. A file differences.txt lists the accepted differences with their reasons; a test fails on any other, and
// on an entry that no longer applies.
type Difference struct {
	Statement string
	Reason    string
	Text      string // as Differences returns it
}

// ParseDifference returns the entry of a "differs" directive: a statement, and a line "reason: …". The text after
// "----" is the expected rendering.
func ParseDifference(d *datadriven.TestData) (*Difference, error) {
	if d.Cmd != "differs" {
		return nil, fmt.Errorf("unknown directive %q", d.Cmd)
	}
	statement, reason, ok := strings.Cut(d.Input, "\nreason: ")
	if !ok || strings.TrimSpace(reason) == "" {
		return nil, fmt.Errorf("a difference without a reason")
	}
	return &Difference{Statement: statement, Reason: strings.TrimSpace(reason), Text: d.Expected}, nil
}

// Pair is an expected and an actual answer. Either may be empty, if one side has fewer steps.
type Pair struct{ Want, Got string }

// Differences renders the cells whose answers are not equal, counted: one line for each pair of answers. It is empty if
// there are none. want and got are answers to the same row.
func (m *Matrix) Differences(want, got Answers) string {
	var pairs []Pair
	for _, u := range m.Users {
		pairs = append(pairs, Pair{want[u.Label], got[u.Label]})
	}
	return FormatPairs(pairs)
}

// FormatPairs renders the pairs whose answers are not equal, as Differences does. One pair of answers is one line, for
// example:
//
//	3 cells answer UNAUTHORIZED: …, not OK
func FormatPairs(pairs []Pair) string {
	counts := map[Pair]int{}
	var order []Pair
	for _, p := range pairs {
		if p.Want == p.Got {
			continue
		}
		// order has each pair once.
		if counts[p]++; counts[p] == 1 {
			order = append(order, p)
		}
	}
	// Maps and users have other orders, and the text is compared.
	slices.SortFunc(order, func(a, b Pair) int { return strings.Compare(a.Want+"\n"+a.Got, b.Want+"\n"+b.Got) })
	var b strings.Builder
	for _, p := range order {
		fmt.Fprintf(&b, "%d cells answer %s, not %s\n", counts[p], p.Got, p.Want)
	}
	return b.String()
}
