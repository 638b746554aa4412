package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// heldOverSync returns the locks that may be held while something waits for the disk, with the reason: no request waits
// for them.
func heldOverSync() map[string]string {
	return map[string]string{
		"storage applyInline c.inline": "it serializes the commits of an engine without goroutines, which " +
			"simulations use",
		"storage ingest e.latches": "it is the read side, which commits take as well",
		"storage removeFile q.mu":  "it serializes Quarantine and Lift; reads use the list without it",
		"storage Lift e.losses.mu": "it serializes Quarantine and Lift; reads use the list without it",
		"storage/encryption Rewrite f.rewrites": "it serializes rewrites of files for a new key; no other operation " +
			"takes it",
		"storage excise rm.latches": "a corrupt file leaves the data: commits must wait, or lose rows",
	}
}

// TestNoLockIsHeldOverSync finds functions that take a lock and, before they release it, wait for the disk: by
// themselves, through functions of their package, or through a function that they get as a parameter and that a caller
// wrote so.
func TestNoLockIsHeldOverSync(t *testing.T) {
	excused := map[string]bool{}
	for pkg, r := range parsePackages(t) {
		for _, found := range syncsUnderLocks(r) {
			key := pkg + " " + found.function + " " + found.lock
			if heldOverSync()[key] != "" {
				excused[key] = true
				continue
			}
			t.Errorf("%s: %s holds %s while it waits for the disk (%s)", r.fset.Position(found.pos), found.function,
				found.lock, key)
		}
	}
	for key := range heldOverSync() {
		if !excused[key] {
			t.Errorf("%s: remove the exception, it is not needed", key)
		}
	}
}

// TestSyncsUnderLocksAreFound shows that the search finds each kind, and nothing else.
func TestSyncsUnderLocksAreFound(t *testing.T) {
	const src = `package x
func direct(e *E) { e.mu.Lock(); defer e.mu.Unlock(); e.db.Apply(b, pebble.Sync) }
func file(e *E) { e.mu.Lock(); f.Sync(); e.mu.Unlock() }
func remover(e *E) { e.latches.lock(all); defer e.latches.unlock(all); e.write(func() { g() }) }
func (e *E) write(f func()) { f(); e.deeper() }
func (e *E) deeper() { e.batch.SyncWait() }
func (e *E) locked(f func()) { e.mu.Lock(); defer e.mu.Unlock(); f() }
func (e *E) passing(f func()) { e.locked(f) }
func parameter(e *E) { e.locked(func() { e.db.Excise(r) }) }
func passed(e *E) { e.passing(func() { if err := e.db.Excise(r); err != nil { return } }) }
func branch(e *E) { e.mu.RLock(); if x { e.deeper() }; e.mu.RUnlock() }
func closure(e *E) { func() { e.mu.Lock(); defer e.mu.Unlock(); e.deeper() }() }
func after(e *E) { e.mu.Lock(); x++; e.mu.Unlock(); e.deeper() }
func inner(e *E) { func() { e.mu.Lock(); defer e.mu.Unlock(); x++ }(); e.deeper() }
func early(e *E) { e.mu.Lock(); if x { e.mu.Unlock(); e.deeper(); return }; e.mu.Unlock() }
func other(e *E) { e.mu.Lock(); defer e.mu.Unlock(); go e.deeper(); e.db.Apply(b, pebble.NoSync) }
func (e *E) Apply() { e.deeper() }
func pebbles(e *E) { e.mu.Lock(); e.db.Apply(b, o); e.mu.Unlock() }
func later(e *E) { e.mu.Lock(); defer e.mu.Unlock(); e.f = func() { e.deeper() } }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, x := range syncsUnderLocks(&parsedPackage{path: "x", files: map[string]*ast.File{"x.go": f}, fset: fset}) {
		found = append(found, x.function)
	}
	slices.Sort(found)
	if got := strings.Join(slices.Compact(found), " "); got != "branch closure direct file parameter passed remover" {
		t.Errorf("found %s", got)
	}
}

// syncUnderLock is a place that waits for the disk under a lock.
type syncUnderLock struct {
	function, lock string
	pos            token.Pos
}

// lockSearch finds such places in a package. Functions and methods are known by their names, without types.
type lockSearch struct {
	functions map[string][]*ast.FuncDecl
	syncs     map[string]bool   // functions that wait for the disk
	calling   map[string]string // functions that call a parameter under a lock, with the lock
	found     []syncUnderLock
	current   *ast.FuncDecl
}

func syncsUnderLocks(r *parsedPackage) []syncUnderLock {
	s := &lockSearch{functions: map[string][]*ast.FuncDecl{}, syncs: map[string]bool{}, calling: map[string]string{}}
	for _, f := range r.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				s.functions[fn.Name.Name] = append(s.functions[fn.Name.Name], fn)
			}
		}
	}
	s.propagate()
	for range 3 { // the first rounds find the functions that call parameters, or pass them on
		s.found = nil
		for _, fns := range s.functions {
			for _, fn := range fns {
				s.current = fn
				s.block(fn.Body.List, nil)
			}
		}
	}
	return s.found
}

// propagate finds the functions that wait for the disk. A name that several types have counts only if all of its
// functions wait.
func (s *lockSearch) propagate() {
	for changed := true; changed; {
		changed = false
		for name, fns := range s.functions {
			waits := !s.syncs[name]
			for _, fn := range fns {
				waits = waits && s.waits(fn.Body)
			}
			if waits {
				s.syncs[name], changed = true, true
			}
		}
	}
}

// waits reports whether a part of a function waits for the disk when it is executed.
func (s *lockSearch) waits(n ast.Node) (found bool) {
	s.calls(n, func(call *ast.CallExpr) { found = found || s.callWaits(call) })
	return found
}

// calls calls f with the calls that the execution of n makes. These include calls of functions that are passed as
// arguments, but not calls in goroutines or in functions that are assigned.
func (s *lockSearch) calls(n ast.Node, f func(*ast.CallExpr)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.AssignStmt:
			if a, ok := n.(*ast.AssignStmt); ok {
				for _, x := range a.Rhs {
					if _, literal := x.(*ast.FuncLit); !literal {
						s.calls(x, f)
					}
				}
			}
			return false
		case *ast.CompositeLit, *ast.ReturnStmt:
			if r, ok := n.(*ast.ReturnStmt); ok {
				for _, x := range r.Results {
					if _, literal := x.(*ast.FuncLit); !literal {
						s.calls(x, f)
					}
				}
			}
			return false
		case *ast.CallExpr:
			f(n)
		}
		return true
	})
}

func (s *lockSearch) callWaits(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if x, ok := a.(*ast.SelectorExpr); ok && x.Sel.Name == "Sync" && exprText(x.X) == "pebble" &&
			calledName(call) != "ApplyNoSyncWait" {
			return true
		}
	}
	name := calledName(call)
	switch name {
	case "Sync", "SyncWait", "SyncData", "Excise":
		_, method := call.Fun.(*ast.SelectorExpr)
		return method && (len(call.Args) == 0 || name == "Excise")
	}
	if x, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(exprText(x.X), ".db") {
		return false // a method of Pebble, not a function of the package with the same name
	}
	return s.syncs[name]
}

// block examines statements that are executed with locks held, and returns the locks that are held after them.
func (s *lockSearch) block(list []ast.Stmt, held []string) []string {
	for _, stmt := range list {
		held = s.statement(stmt, held)
	}
	return held
}

func (s *lockSearch) statement(stmt ast.Stmt, held []string) []string {
	switch x := stmt.(type) {
	case *ast.ExprStmt:
		if call, ok := x.X.(*ast.CallExpr); ok {
			lock, verb := lockCall(call)
			switch verb {
			case "lock":
				return append(slices.Clone(held), lock)
			case "unlock":
				return slices.DeleteFunc(slices.Clone(held), func(l string) bool { return l == lock })
			}
		}
	case *ast.DeferStmt, *ast.GoStmt:
		return held
	case *ast.BlockStmt:
		return s.block(x.List, held)
	case *ast.IfStmt:
		s.expressions(x.Init, held)
		s.expressions(x.Cond, held)
		s.block(x.Body.List, held)
		if x.Else != nil {
			s.statement(x.Else, held)
		}
		return held
	case *ast.ForStmt:
		s.block(x.Body.List, held)
		return held
	case *ast.RangeStmt:
		s.block(x.Body.List, held)
		return held
	case *ast.SwitchStmt:
		for _, c := range x.Body.List {
			s.block(c.(*ast.CaseClause).Body, held)
		}
		return held
	case *ast.SelectStmt:
		for _, c := range x.Body.List {
			s.block(c.(*ast.CommClause).Body, held)
		}
		return held
	}
	s.expressions(stmt, held)
	return held
}

// expressions examines what a statement without statements in it calls.
func (s *lockSearch) expressions(n ast.Node, held []string) {
	if n == nil || n == ast.Stmt(nil) {
		return
	}
	s.calls(n, func(call *ast.CallExpr) {
		if literal, ok := call.Fun.(*ast.FuncLit); ok {
			s.block(literal.Body.List, held)
			return
		}
		name := calledName(call)
		if id, ok := call.Fun.(*ast.Ident); ok && len(held) > 0 && isParameter(s.current, id.Name) {
			s.calling[s.current.Name.Name] = held[len(held)-1]
		}
		for _, a := range call.Args {
			if id, ok := a.(*ast.Ident); ok && s.calling[name] != "" && isParameter(s.current, id.Name) {
				s.calling[s.current.Name.Name] = s.calling[name] // it passes its parameter on
			}
			literal, ok := a.(*ast.FuncLit)
			if ok && s.calling[name] != "" && len(s.functions[name]) > 0 && s.waits(literal.Body) {
				s.report(s.calling[name], call.Pos())
			} else if ok {
				s.block(literal.Body.List, nil)
			}
		}
		if len(held) > 0 && s.callWaits(call) {
			s.report(held[len(held)-1], call.Pos())
		}
	})
}

func (s *lockSearch) report(lock string, pos token.Pos) {
	s.found = append(s.found, syncUnderLock{s.current.Name.Name, lock, pos})
}

// lockCall returns which lock a call takes or releases.
func lockCall(call *ast.CallExpr) (lock, verb string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch strings.ToLower(sel.Sel.Name) {
	case "lock", "rlock":
		return exprText(sel.X), "lock"
	case "unlock", "runlock":
		return exprText(sel.X), "unlock"
	}
	return "", ""
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func isParameter(fn *ast.FuncDecl, name string) bool {
	for _, field := range fn.Type.Params.List {
		for _, n := range field.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// exprText returns the source of names and selectors.
func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return exprText(e.X) + "[]"
	}
	return "?"
}
