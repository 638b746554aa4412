package lint

import (
	"go/ast"
	"os"
	"strconv"
	"strings"
	"testing"
)

// docs/limits.md lists every error "… is not supported yet" that a statement can return.
func TestUnsupportedErrorsAreDocumented(t *testing.T) {
	b, err := os.ReadFile(root + "/docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	found := 0
	for pkg, r := range parsePackages(t) {
		if !ownedBy(pkg, []string{"query"}) {
			continue
		}
		for _, f := range r.files {
			for _, what := range notSupported(f) {
				found++
				if !strings.Contains(text, what+" is not supported yet") &&
					!strings.Contains(text, what+"SERIAL is not supported yet") {
					t.Errorf("docs/limits.md does not list %q", what+" is not supported yet")
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d answers were found: the code or the test has changed", found)
	}
}

// notSupported returns the string literals that f passes to NotSupported, or that statementName returns.
func notSupported(f *ast.File) (out []string) {
	add := func(e ast.Expr) {
		if sum, ok := e.(*ast.BinaryExpr); ok {
			e = sum.X
		}
		if lit, ok := e.(*ast.BasicLit); ok {
			if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
				out = append(out, s)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && strings.EqualFold(id.Name, "notSupported") && len(n.Args) == 1 {
				add(n.Args[0])
			}
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "NotSupported" && len(n.Args) == 1 {
				add(n.Args[0])
			}
		case *ast.FuncDecl:
			if strings.HasSuffix(n.Name.Name, "tatementName") {
				ast.Inspect(n, func(m ast.Node) bool {
					if r, ok := m.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
						add(r.Results[0])
					}
					return true
				})
			}
		}
		return true
	})
	return out
}
