package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestLogMessagesAreConstant reports log messages that contain values. Messages are compared to limit how often one
// repeats (internal/loglimit), and to count and search them; values belong into attributes.
func TestLogMessagesAreConstant(t *testing.T) {
	levels := []string{"Debug", "Info", "Warn", "Error"}
	for pkg, r := range parsePackages(t) {
		if strings.HasPrefix(pkg, "tools") || strings.HasPrefix(pkg, "integration") {
			continue
		}
		for _, f := range r.files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains(levels, method.Sel.Name) && isLogger(method.X) && containsCall(call.Args[0]) {
					t.Errorf("%s: a log message that contains values: use attributes", r.fset.Position(call.Pos()))
				}
				return true
			})
		}
	}
}

// isLogger reports whether an expression is named as loggers are.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok {
			return s.Sel.Name == "With" && isLogger(s.X)
		}
	}
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger") || name == "slog"
}

func containsCall(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		_, call := n.(*ast.CallExpr)
		found = found || call
		return !found
	})
	return found
}
