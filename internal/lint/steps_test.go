package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// releasing returns how many functions of each package release a lock that their caller took. A step holds the lock of
// its operation before and after (ADR 27), so each number may only become smaller.
func releasing() map[string]int {
	return map[string]int{}
}

// TestFunctionsKeepTheirCallersLocks finds functions that unlock a mutex which they have not locked themselves.
func TestFunctionsKeepTheirCallersLocks(t *testing.T) {
	counts := map[string]int{}
	for pkg, r := range parsePackages(t) {
		names := foreignUnlocks(r.files)
		if counts[pkg] = len(names); len(names) != releasing()[pkg] {
			t.Errorf("%s: %d functions release a lock of their caller, the list says %d; divide them into a step that "+
				"returns effects and a shell that locks: %s", pkg, len(names), releasing()[pkg],
				strings.Join(names, " "))
		}
	}
	for pkg := range releasing() {
		if counts[pkg] == 0 {
			t.Errorf("%s: remove it from the list", pkg)
		}
	}
}

// TestForeignUnlocksAreFound shows that the search finds each kind, and nothing else.
func TestForeignUnlocksAreFound(t *testing.T) {
	const src = `package x
func (op *op) found() { op.mu.Unlock(); op.done() }
func (op *op) branch() { if op.done == nil { op.mu.Unlock(); return }; op.n++ }
func (op *op) read() { op.mu.RUnlock() }
func (op *op) around() { op.mu.Unlock(); op.send(); op.mu.Lock() }
func (op *op) deferred() { defer op.mu.Unlock(); op.n++ }
func (op *op) closure() { op.f(func() { op.mu.Unlock() }) }
func (op *op) other() { op.a.Lock(); op.b.Unlock(); op.a.Unlock() }
func (op *op) own() { op.mu.Lock(); defer op.mu.Unlock(); op.n++ }
func (op *op) early() { op.mu.Lock(); if op.done == nil { op.mu.Unlock(); return }; op.mu.Unlock() }
func (op *op) again() { op.mu.Lock(); op.mu.Unlock(); op.send(); op.mu.Lock(); op.mu.Unlock() }
func (op *op) tried() { if op.mu.TryLock() { op.mu.Unlock() } }
func (op *op) inside() { op.f(func() { op.mu.Lock(); op.mu.Unlock() }) }
func (l *lock) Unlock() { l.mu.Unlock() }
`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := strings.Join(foreignUnlocks(map[string]*ast.File{"x.go": f}), " ")
	if found != "op.around op.branch op.closure op.deferred op.found op.other op.read" {
		t.Errorf("found %s", found)
	}
}

// foreignUnlocks returns the functions that unlock a mutex before they have locked it. Mutexes are known by the
// expressions that name them. A function literal may unlock what the function around it has locked.
func foreignUnlocks(files map[string]*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			// A type that is a lock itself releases what its Lock took.
			if !ok || fn.Body == nil || strings.EqualFold(fn.Name.Name, "unlock") ||
				strings.EqualFold(fn.Name.Name, "runlock") || !unlocksForeign(fn) {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				name = receiver(fn) + "." + name
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func unlocksForeign(fn *ast.FuncDecl) (foreign bool) {
	locked := map[string]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		mutex := types.ExprString(method.X)
		switch method.Sel.Name {
		case "Lock", "RLock", "TryLock", "TryRLock":
			locked[mutex] = true
		case "Unlock", "RUnlock":
			foreign = foreign || !locked[mutex]
		}
		return true
	})
	return foreign
}
