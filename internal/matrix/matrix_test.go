package matrix

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRecordedAnswersAreCanonical: Parse and Format are inverse for every recorded row, so a recording changes only the
// rows that differ.
func TestRecordedAnswersAreCanonical(t *testing.T) {
	m, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	rows, cells := 0, map[string]int{}
	files, _ := filepath.Glob("testdata/rows/*.txt")
	for _, file := range files {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			answers, err := m.Parse(d.Expected)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			rows++
			for _, a := range answers {
				kind, _, _ := strings.Cut(a, ":")
				cells[strings.Fields(kind)[0]]++
			}
			return m.Format(answers)
		})
	}
	t.Logf("%d rows; cells by answer: %v", rows, cells)
	if cells["OK"] < 2000 || cells["UNAUTHORIZED"] < 2000 {
		t.Errorf("too few cells are granted or refused: %v", cells)
	}
}

func users(labels ...string) *Matrix {
	m := &Matrix{}
	for i, label := range labels {
		m.Users = append(m.Users, &User{Label: label, Name: "mx_user" + string(rune('a'+i))})
	}
	return m
}

func TestParseRefusesIncompleteAnswers(t *testing.T) {
	m := users("none", "superuser", "SELECT ON TABLE mx.t")
	for _, text := range []string{"", "OK\n  the other 2\n", "OK\n  the other x\n",
		"OK\n  none\n  nobody\n  superuser\n", "OK\n  none; none\n  the other 1\n"} {
		if _, err := m.Parse(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	got, err := m.Parse("OK\n  superuser\nUNAUTHORIZED: x\n  the other 2\n")
	if err != nil || got["none"] != "UNAUTHORIZED: x" || got["superuser"] != "OK" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestUsersHaveTheirGrants(t *testing.T) {
	for label, want := range map[string][]string{
		"none": nil, "superuser": nil,
		"member of mx_r": {"GRANT mx_r TO u"},
		"ALTER ON ROLE mx_r + SELECT ON TABLE mx.t": {"GRANT ALTER ON ROLE mx_r TO u",
			"GRANT SELECT ON TABLE mx.t TO u"},
	} {
		if got := (&User{Label: label, Name: "u"}).grants(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
	if create := (&User{Label: "superuser", Name: "u"}).statements()[0]; !strings.Contains(create, "SUPERUSER = true") {
		t.Error(create)
	}
}

// scripted responds to every statement with the user's name, and records the superuser's statements.
type scripted struct {
	Target
	answers map[string]string
	admin   []string
}

func (s *scripted) Admin(text string) error {
	s.admin = append(s.admin, text)
	if text == "FAIL" {
		return errors.New("failed")
	}
	return nil
}

func (s *scripted) Query(user, _ string) (string, error) { return s.answers[user], nil }

// TestPlayUndoesSuccesses: only a statement that succeeded is undone, and its user's name and rows are not in the
// answer.
func TestPlayUndoesSuccesses(t *testing.T) {
	m := users("none", "superuser")
	s := &scripted{answers: map[string]string{"mx_usera": "UNAUTHORIZED: User mx_usera has no ALTER permission on " +
		"<role mx_usera>", "mx_userb": "OK (1)"}}
	got, err := m.Play(s, &Row{Statement: "x $me", undo: []string{"undo $me"}, unordered: true})
	if err != nil || !slices.Equal(s.admin, []string{"undo mx_userb"}) {
		t.Errorf("%v: the superuser executed %q", err, s.admin)
	}
	if got["superuser"] != "OK" || got["none"] != "UNAUTHORIZED: User $me has no (one of the permissions) "+
		"permission on <role $me>" {
		t.Errorf("%q", got)
	}
	if got, _ := m.Play(s, &Row{Statement: "x", rows: true}); got["superuser"] != "OK (1)" {
		t.Errorf("%q", got)
	}
	if _, err := m.Play(s, &Row{Statement: "x", undo: []string{"FAIL"}}); err == nil {
		t.Error("a failed undo was ignored")
	}
}

func TestDifferencesAreCounted(t *testing.T) {
	m := users("a", "b", "c")
	if text := m.Differences(Answers{"a": "OK", "b": "OK", "c": "OK"},
		Answers{"a": "OK", "b": "OK", "c": "OK"}); text != "" {
		t.Error(text)
	}
	text := m.Differences(Answers{"a": "OK", "b": "OK", "c": "x"}, Answers{"a": "y", "b": "y", "c": "OK"})
	if text != "2 cells answer y, not OK\n1 cells answer OK, not x\n" {
		t.Error(text)
	}
}
