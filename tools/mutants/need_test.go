package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// needing has the tests that call mutant.Need, by their package directories, and the keys in these tests.
type needing struct {
	tests map[string][]string
	keys  []string
}

// findNeeding parses the tests of the module that import package mutant.
func findNeeding(t *testing.T, root string) needing {
	t.Helper()
	n := needing{tests: map[string][]string{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// Binaries and copies of the tool, and data of tests.
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(strconv.Quote(switchImport))) {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		n.add(t, filepath.ToSlash(dir), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// add takes the tests of a file. A call in another function is an error: nothing would execute its tests. The keys of a
// test are all strings in it that have their form: those of a table reach Need in a variable.
func (n *needing) add(t testing.TB, dir string, f *ast.File) {
	t.Helper()
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		calls := 0
		var keys []string
		ast.Inspect(fn, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				if s, ok := node.Fun.(*ast.SelectorExpr); ok && isNeed(s) {
					calls++
				}
			case *ast.BasicLit:
				// A literal of another kind has no quotes, and is then no key.
				text, _ := strconv.Unquote(node.Value)
				keys = append(keys, keysIn(text)...)
			}
			return true
		})
		name := fn.Name.Name
		switch {
		case calls == 0:
			continue
		case !strings.HasPrefix(name, "Test"):
			t.Errorf("%s: %s calls mutant.Need and is not a test", dir, name)
		// Keys from elsewhere would not be checked before the long run that needs them.
		case len(keys) == 0:
			t.Errorf("%s: %s calls mutant.Need and contains no key", dir, name)
		default:
			n.tests[dir] = append(n.tests[dir], name)
			n.keys = append(n.keys, keys...)
		}
	}
}

// keysIn returns the keys of a string that consists of keys, separated by spaces: "paxos/no-lookup paxos/no-turns". It
// returns nothing for other strings, for example with a word that begins with no area.
func keysIn(text string) []string {
	words := strings.Fields(text)
	for _, w := range words {
		name, key, ok := strings.Cut(w, "/")
		isArea := func(a area) bool { return a.name == name }
		if !ok || key == "" || !slices.ContainsFunc(areas(), isArea) {
			return nil
		}
	}
	return words
}

func isNeed(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "mutant" && s.Sel.Name == "Need"
}

// checkKeys reports keys of no mutant.
func (n *needing) checkKeys(t testing.TB, c *catalog) {
	t.Helper()
	for _, key := range n.keys {
		if !slices.ContainsFunc(c.mutants, func(m *mutant) bool { return m.key == key }) {
			t.Errorf("a test needs the mutant %s, which does not exist", key)
		}
	}
}

// packages returns the package directories of the tests.
func (n *needing) packages() []string { return slices.Sorted(maps.Keys(n.tests)) }

// run executes the tests of a package, in its binary with all mutants. None may fail or be skipped.
func (n *needing) run(ctx context.Context, t *testing.T, root, dir, pkg string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary(dir, pkg), "-test.v", "-test.timeout=20m",
		"-test.run=^("+strings.Join(n.tests[pkg], "|")+")$")
	cmd.Dir = filepath.Join(root, filepath.FromSlash(pkg))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%v for %d tests", time.Since(began).Round(time.Second), len(n.tests[pkg]))
	if err != nil || bytes.Contains(out, []byte("--- SKIP")) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range n.tests[pkg] {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			t.Errorf("%s did not run", name)
		}
	}
}

// errorsOnly records the errors of a check that must fail.
type errorsOnly struct {
	testing.TB
	errors []string
}

func (e *errorsOnly) Helper() {}
func (e *errorsOnly) Errorf(f string, args ...any) {
	e.errors = append(e.errors, fmt.Sprintf(f, args...))
}

// TestKeysAreFoundInTables checks tests whose keys reach Need as literals, in tables, and from elsewhere.
func TestKeysAreFoundInTables(t *testing.T) {
	c := &catalog{mutants: []*mutant{{key: "paxos/known"}, {key: "ring/known"}}}
	for body, want := range map[string]string{
		`mutant.Need(t, "paxos/known", "ring/known")`:                                 "",
		`mutant.Need(t, "paxos/unknown")`:                                             "paxos/unknown",
		`for _, key := range []string{"ring/unknown"} { mutant.Need(t, key) }`:        "ring/unknown",
		`mutant.Need(t, strings.Fields("paxos/known ring/unknown")...)`:               "ring/unknown",
		`for _, k := range elsewhere { mutant.Need(t, k) }`:                           "contains no key",
		`mutant.Need(t, "paxos/known"); use("the path is ring/unknown", 17, "a/b/c")`: "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x\nfunc TestX() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		n, e := needing{tests: map[string][]string{}}, &errorsOnly{TB: t}
		n.add(e, "x", f)
		n.checkKeys(e, c)
		if got := strings.Join(e.errors, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
