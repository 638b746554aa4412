package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLogMessagesAreConstant reports log messages that contain values. Messages are compared to limit how often one
// repeats (internal/loglimit), and to count and search them; values belong into attributes. Errors have one key, and a
// message begins with its subject instead of the name of a package.
func TestLogMessagesAreConstant(t *testing.T) {
	prefixed := regexp.MustCompile(`^[a-z]+: `)
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
				if !ok || !slices.Contains(levels, method.Sel.Name) || !isLogger(method.X) {
					return true
				}
				if containsCall(call.Args[0]) {
					t.Errorf("%s: a log message that contains values: use attributes", r.fset.Position(call.Pos()))
				}
				if prefixed.MatchString(literal(call.Args[0])) {
					t.Errorf("%s: a log message with a prefix: name the subject", r.fset.Position(call.Pos()))
				}
				for _, key := range call.Args[1:] {
					if literal(key) == "error" {
						t.Errorf("%s: the key of errors is err", r.fset.Position(key.Pos()))
					}
				}
				return true
			})
		}
	}
}

// literal returns the value of a string literal, or an empty string.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		return strings.Trim(l.Value, "\"")
	}
	return ""
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
