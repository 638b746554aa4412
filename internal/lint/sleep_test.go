package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// sleeping returns how many calls of time.Sleep the unit tests of each package contain. A test waits for a condition
// with internal/await, for time with a clock that it moves, or in a bubble of testing/synctest. Each number may only
// become smaller.
func sleeping() map[string]int {
	return map[string]int{
		"coordinator":    13,
		"server":         18,
		"cluster":        4,
		"paxos/acceptor": 1,
		// Here a sleep is the work of a simulated slow disk, node or server, the pace of a client, or the subject: a
		// connection that is idle, a race that needs many attempts, a call that has to be waiting already.
		"azuretables":        3,
		"azuretables/entity": 1,
		"cmd/cqld/bench":     1,
		"listing":            2,
		"messaging":          6,
		"node":               1,
		"node/control":       1,
		"node/socket":        1,
		"request":            1,
		"storage":            1,
	}
}

// TestUnitTestsDoNotSleep counts the sleeps in tests, without benchmarks and tests of real processes.
func TestUnitTestsDoNotSleep(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p, root), "/"))
		if d.IsDir() {
			if rel != "" && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || hasOwnModule(p)) ||
				rel == "integration" || rel == "simulation" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, "_test.go") || strings.HasSuffix(p, "_bench_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			return err
		}
		if n := sleeps(f); n > 0 {
			found[path.Dir(rel)] += n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, n := range found {
		if n > sleeping()[pkg] {
			t.Errorf("%s: tests sleep in %d places, the list says %d; use internal/await, a clock, or synctest", pkg, n,
				sleeping()[pkg])
		}
	}
	for pkg, n := range sleeping() {
		if found[pkg] < n {
			t.Errorf("%s: tests sleep in %d places; write that into the list", pkg, found[pkg])
		}
	}
}

// sleeps counts the calls of time.Sleep in f. A file that imports testing/synctest has none: time passes there only
// while all goroutines wait.
func sleeps(f *ast.File) (n int) {
	for _, i := range f.Imports {
		if i.Path.Value == `"testing/synctest"` {
			return 0
		}
	}
	ast.Inspect(f, func(node ast.Node) bool {
		if sel, ok := node.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				n++
			}
		}
		return true
	})
	return n
}

func TestSleepsAreFound(t *testing.T) {
	const sleeper = "\nfunc f() { time.Sleep(1); for ; ; time.Sleep(1) {} }\nvar _ = time.Now\n"
	for imports, want := range map[string]int{`import "time"`: 2, `import ("time"; "testing/synctest")`: 0} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+imports+sleeper, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := sleeps(f); n != want {
			t.Errorf("%s: %d sleeps were found, want %d", imports, n, want)
		}
	}
}
