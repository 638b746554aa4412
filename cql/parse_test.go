package cql

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestParse runs the corpus. A case is a statement; the expected output is its canonical text, or the error. The output
// of Format must parse to an equal statement, whose canonical text must be the same.
func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, err := Parse(d.Input)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			text := Format(s)
			checkIdentity(t, s, text)
			if d.Cmd == "ast" {
				return text + "\n" + fmt.Sprintf("%+v", reflect.ValueOf(s).Elem()) + "\n"
			}
			return text + "\n"
		})
	})
}

func checkIdentity(t *testing.T, s Statement, text string) {
	t.Helper()
	again, err := Parse(text)
	if err != nil {
		t.Errorf("formatted text does not parse: %s\n%v", text, err)
		return
	}
	if !reflect.DeepEqual(s, again) {
		t.Errorf("parsing the formatted text gives another statement: %s\ngives %s", text, Format(again))
	}
	if twice := Format(again); twice != text {
		t.Errorf("formatting is not stable: %s\nthen %s", text, twice)
	}
	if strings.ContainsAny(text, "\n") && !strings.Contains(text, "'") && !strings.Contains(text, "$$") &&
		!strings.Contains(text, `"`) {
		t.Errorf("formatted text has a line break: %q", text)
	}
}
