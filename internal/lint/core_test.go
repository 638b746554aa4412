package lint

import (
	"go/ast"
	"go/token"
	"testing"
)

// core returns the packages whose behavior must be reproducible from a seed: time, randomness, network and disk are
// injected, and they start no goroutines.
func core() []string {
	return []string{
		"internal/wire", "auth", "jobs", "row", "scan", "ring", "schema", "cluster",
		"coordinator", "paxos", "hints", "batchlog", "counters", "listing", "search", "view", "watermark",
		"replica", "repair", "rebalance",
		"request", "cql", "query", "azuretables/entity", "login",
	}
}

func TestTheCoreTakesTimeAndChanceFromOutside(t *testing.T) {
	all := parsePackages(t)
	for pkg, r := range all {
		if !ownedBy(pkg, core()) {
			continue
		}
		for imported, file := range r.imports() {
			switch imported {
			case "math/rand", "math/rand/v2", "crypto/rand", "net", "net/http", "os":
				t.Errorf("%s imports %s: the core is handed what it needs", file, imported)
			}
		}
		for name, f := range r.files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a go statement in the core", r.fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && x.Obj == nil &&
						clockFunctions()[n.Sel.Name] {
						t.Errorf("%s:%d: time.%s in the core; use the env.Clock", name, r.fset.Position(n.Pos()).Line,
							n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func clockFunctions() map[string]bool {
	return map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
		"NewTimer": true, "NewTicker": true, "Tick": true}
}

func TestNoInitAndNoMutablePackageState(t *testing.T) {
	for _, r := range parsePackages(t) {
		for _, f := range r.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: init; hand things in instead", r.fset.Position(fn.Pos()))
				}
			}
		}
		reportAssignments(t, r)
	}
}

// reportAssignments reports package variables that a function of the package assigns to.
func reportAssignments(t *testing.T, r *parsedPackage) {
	vars, specs := packageVariables(r)
	for _, f := range r.files {
		ast.Inspect(f, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || a.Tok == token.DEFINE {
				return true
			}
			for _, l := range a.Lhs {
				id := rootIdent(l)
				if id == nil || !vars[id.Name] {
					continue
				}
				// The parser resolves names within a file, so unresolved ones are package variables.
				spec, _ := objectDecl(id).(*ast.ValueSpec)
				if id.Obj == nil || specs[spec] {
					t.Errorf("%s: assigns to the package variable %s", r.fset.Position(a.Pos()), id.Name)
				}
			}
			return true
		})
	}
}

func packageVariables(r *parsedPackage) (names map[string]bool, specs map[*ast.ValueSpec]bool) {
	names, specs = map[string]bool{}, map[*ast.ValueSpec]bool{}
	for _, f := range r.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				specs[v] = true
				for _, n := range v.Names {
					names[n.Name] = n.Name != "_"
				}
			}
		}
	}
	return names, specs
}

func objectDecl(id *ast.Ident) any {
	if id.Obj == nil {
		return nil
	}
	return id.Obj.Decl
}

func rootIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		default:
			return nil
		}
	}
}
