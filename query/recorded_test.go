package query

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unrecorded contains error messages that no transcript has, each with the reason.
func unrecorded() map[string]string {
	const exception = "Cassandra fails with an exception of Java instead"
	const unlike = "Cassandra answers with another error of the transcripts"
	return map[string]string{
		"Multi-column relation has more than %d columns": "a bound of " +
			"cqld",
		"WHERE has more than %d relations": "a bound of " +
			"cqld",
		"A value of type %s has more than %d bytes": "a bound of " +
			"cqld",
		"Index %s does not support custom expressions": "needs a SASI index, which " +
			"Cassandra does not create by default",
		"Key length of %d is longer than maximum of %d": "the statement would have 64 KiB",
		"%s cannot be used for multi-column relations": "Cassandra's grammar has no " +
			"such relation",
		"non-finite value at vector[%d]=%v": "Cassandra answers a failure of its replicas",
		"Zero vectors cannot be indexed or queried with %s similarity": "Cassandra answers a failure of its " +
			"replicas",
		"Invalid null value for tuple %s":                                            exception,
		"Invalid element access syntax for non-UDT column %s":                        exception,
		"Invalid unset value for element access on column %s":                        exception,
		"Invalid null value for IN restriction":                                      exception,
		"unset value is not supported inside collections":                            unlike,
		"Type error: cannot assign result of operation %s (type %s) to %s (type %s)": unlike,
		"Multi-column slice restrictions cannot be used for " +
			"filtering.": "cqld refuses fewer statements than Cassandra",
		"Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality": unlike,
		"Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN " +
			"restrictions on %s produces %d values, this exceeds fail threshold of %d.": "needs a guardrail",
	}
}

// TestErrorsAreRecorded checks that a transcript of Cassandra has each error of the packages that say what WHERE, IF,
// selected elements, terms and assignments mean: a new text must be Cassandra's, or have a reason.
func TestErrorsAreRecorded(t *testing.T) {
	recorded := recordedErrors(t)
	except := unrecorded()
	for _, pattern := range []string{"restriction/*.go", "selection/*.go", "term/*.go", "write/condition*.go",
		"write/operation.go", "write/assignment.go", "write/deletion.go", "write/addtocounter.go"} {
		for _, text := range errorTexts(t, pattern) {
			_, excepted := except[text]
			found := slices.ContainsFunc(recorded, matcher(text))
			switch {
			case !found && !excepted:
				t.Errorf("%s: no transcript has the error %q", pattern, text)
			case found && excepted:
				t.Errorf("%s: a transcript has the error %q: it is no exception", pattern, text)
			}
			if excepted {
				except[text] = ""
			}
		}
	}
	for text, reason := range except {
		if reason != "" {
			t.Errorf("no package has the error %q", text)
		}
	}
}

// recordedErrors returns the errors in the transcripts, without their codes.
func recordedErrors(t *testing.T) (texts []string) {
	err := filepath.WalkDir("../integration/testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		if filepath.ToSlash(path) == "../integration/testdata/differences/cqld.txt" {
			return nil // cqld's own answers
		}
		b, err := os.ReadFile(path)
		for line := range strings.SplitSeq(string(b), "\n") {
			if code, text, ok := strings.Cut(line, ": "); ok && code == strings.ToUpper(code) {
				texts = append(texts, text)
			}
		}
		return err
	})
	if err != nil || len(texts) == 0 {
		t.Fatalf("%d errors in transcripts: %v", len(texts), err)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// errorTexts returns the formats of the calls of invalid.Errorf in files.
func errorTexts(t *testing.T, pattern string) (texts []string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Errorf" && isIdent(f.X, "invalid") {
					if text := constantText(call.Args[0]); text != "" {
						texts = append(texts, text)
					}
				}
			}
			return true
		})
	}
	return texts
}

// isIdent reports whether an expression is an identifier with a name.
func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// constantText returns the value of a string in source code, or "" if it is not constant.
func constantText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value) // the compiler has accepted it
		return s
	case *ast.BinaryExpr:
		return constantText(e.X) + constantText(e.Y)
	}
	return ""
}

// matcher returns a function that reports whether a format can have produced a text.
func matcher(format string) func(string) bool {
	const percent = "\x00"
	parts := regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`).Split(strings.ReplaceAll(format, "%%", percent), -1)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(strings.ReplaceAll(p, percent, "%"))
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString
}
