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
	for name, n := range methods {
		if n > typeMethodsMax {
			t.Errorf("%s has %d methods, more than %d: divide it by responsibility", name, n, typeMethodsMax)
		}
	}
	for name, n := range fields {
		if n > structFieldsMax {
			t.Errorf("%s has %d fields, more than %d: divide it by responsibility", name, n, structFieldsMax)
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

// fieldsOf returns the number of fields of a struct, including the fields of anonymous structs in it. An embedded type
// is one field. Other types have no fields.
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
