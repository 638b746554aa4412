package udf

import (
	"errors"
	"fmt"
	"strings"

	"cqld/schema"
	"cqld/types"
	"cqld/udf/java"
	"cqld/udf/value"
)

// javaProgram is a function in Java.
type javaProgram struct {
	f *schema.Function
	p *java.Program
}

func compileJava(f *schema.Function) (program, error) {
	p, err := java.Compile(java.Function{Body: f.Body, ArgNames: f.ArgNames, ArgTypes: f.ArgTypes, Returns: f.Returns, CalledOnNull: f.CalledOnNull})
	var unsupported *java.Unsupported
	switch {
	case errors.As(err, &unsupported):
		return nil, &Refused{fmt.Sprintf("LANGUAGE java: %s. Only a subset of Java is executed; write the function in Lua instead, for example: %s",
			unsupported.Error(), example(f))}
	case err != nil:
		return nil, &Refused{"Java source compilation failed:\n" + err.Error() + "\n"}
	}
	return &javaProgram{f, p}, nil
}

// example returns the statement that creates the function in Lua, with a simple body.
func example(f *schema.Function) string {
	args := make([]string, len(f.ArgNames))
	for i, name := range f.ArgNames {
		args[i] = types.QuoteName(name) + " " + schema.DeclaredText(f.ArgTypes[i])
	}
	body := "return nil"
	if len(f.ArgNames) > 0 {
		body = "if " + f.ArgNames[0] + " == nil then return nil end return " + strings.Join(f.ArgNames, " + ")
	}
	return fmt.Sprintf("CREATE FUNCTION %s.%s (%s) %s RETURNS %s LANGUAGE lua AS '%s'", types.QuoteName(f.Keyspace), types.QuoteName(f.Name),
		strings.Join(args, ", "), schema.NullDirective(f.CalledOnNull), schema.DeclaredText(f.Returns), body)
}

func (p *javaProgram) call(m *value.Meter, args [][]byte) (result []byte, err error) {
	values, err := fromCQL(m, p.f.ArgTypes, args)
	if err != nil {
		return nil, err
	}
	v, err := p.p.Run(m, values)
	if err != nil {
		return nil, err
	}
	defer value.Catch(&err)
	return value.ToCQL(m, p.f.Returns, v), nil
}

func (p *javaProgram) bytes() int64 { return sourceBytes(p.f) }
