package lint

import (
	"go/ast"
	"testing"
)

// A type with more methods, or a struct with more fields, is several types.
const (
	typeMethodsMax  = 45
	structFieldsMax = 40
)

// methodExceptions returns the types that still have more methods, with their number. Numbers are only ever reduced: a
// type that has fewer methods than its exception fails the test, too.
func methodExceptions() map[string]int {
	return map[string]int{
		"simulation/scenario.script": 50,
	}
}

// fieldExceptions returns the structs that still have more fields, with their number. It is used as methodExceptions.
func fieldExceptions() map[string]int {
	return map[string]int{
		"simulation.Options": 59,
	}
}

func TestTypesStaySmall(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	for pkg, r := range parsePackages(t) {
		for _, f := range r.files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv != nil {
						methods[pkg+"."+receiverName(d.Recv.List[0].Type)]++
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if ts, ok := s.(*ast.TypeSpec); ok {
							fields[pkg+"."+ts.Name.Name] = fieldsOf(ts.Type)
						}
					}
				}
			}
		}
	}
	ratchet(t, "methods", methods, typeMethodsMax, methodExceptions())
	ratchet(t, "fields", fields, structFieldsMax, fieldExceptions())
}

// ratchet compares the figures of types with a bound and its exceptions.
func ratchet(t *testing.T, what string, figures map[string]int, most int, exceptions map[string]int) {
	t.Helper()
	for name, n := range figures {
		switch allowed, ok := exceptions[name]; {
		case !ok && n > most:
			t.Errorf("%s has %d %s, more than %d: divide it by responsibility", name, n, what, most)
		case ok && n > allowed:
			t.Errorf("%s has %d %s, more than its exception of %d: divide it by responsibility", name, n, what, allowed)
		case ok && n <= most:
			t.Errorf("%s has only %d %s: remove its exception", name, n, what)
		case ok && n < allowed:
			t.Errorf("%s has only %d %s: reduce its exception of %d", name, n, what, allowed)
		}
	}
	for name := range exceptions {
		if _, ok := figures[name]; !ok {
			t.Errorf("%s has an exception for its %s, but does not exist", name, what)
		}
	}
}

// receiverName returns the name of the type of a receiver.
func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// fieldsOf returns the number of fields of a struct, including those of anonymous structs in it. An embedded type is
// one field. Other types have no fields.
func fieldsOf(e ast.Expr) (n int) {
	s, ok := e.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		if inner, ok := f.Type.(*ast.StructType); ok {
			n += fieldsOf(inner)
			continue
		}
		n += max(1, len(f.Names))
	}
	return n
}
