package main

import (
	"bytes"
	"context"
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

// needing has the tests that call mutant.Need, by their package directories, and the keys that they name literally.
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

// add takes the tests of a file. A call in another function is an error: nothing would execute its tests.
func (n *needing) add(t *testing.T, dir string, f *ast.File) {
	t.Helper()
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		calls := 0
		ast.Inspect(fn, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || !isNeed(s) {
				return true
			}
			calls++
			for _, arg := range call.Args {
				if key, ok := arg.(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(key.Value)
					n.keys = append(n.keys, text)
				}
			}
			return true
		})
		name := fn.Name.Name
		switch {
		case calls == 0:
		case !strings.HasPrefix(name, "Test"):
			t.Errorf("%s: %s calls mutant.Need and is not a test", dir, name)
		default:
			n.tests[dir] = append(n.tests[dir], name)
		}
	}
}

func isNeed(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "mutant" && s.Sel.Name == "Need"
}

// checkKeys reports keys of no mutant.
func (n *needing) checkKeys(t *testing.T, c *catalog) {
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
