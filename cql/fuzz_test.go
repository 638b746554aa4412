package cql

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// FuzzParse checks that Parse never panics and fails only with a *SyntaxError, and that statements that it accepts
// survive Format.
func FuzzParse(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Error() == "" {
				t.Fatalf("%q: %v is no syntax error", text, err)
			}
			return
		}
		formatted := Format(s)
		again, err := Parse(formatted)
		if err != nil {
			t.Fatalf("%q is formatted as %q: %v", text, formatted, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%q is formatted as %q, which means %q", text, formatted, Format(again))
		}
	})
}

// corpus returns the statements of testdata/parse.
func corpus(t testing.TB) []string {
	var out []string
	for _, name := range []string{"data", "describe", "errors", "keywords", "literals", "roles", "schema", "select",
		"tables", "where"} {
		datadriven.RunTestAny(t, "testdata/parse/"+name+".txt", func(_ testing.TB, d *datadriven.TestData) string {
			out = append(out, d.Input)
			return d.Expected
		})
	}
	if strings.Join(out, "") == "" {
		t.Fatal("testdata/parse is empty")
	}
	return out
}
