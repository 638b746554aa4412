package udf

import (
	"errors"
	"fmt"

	"cqld/schema"
	"cqld/udf/java"
	"cqld/udf/value"
)

// javaProgram is a function in Java. f contains the types for the conversion of arguments and result.
type javaProgram struct {
	f *schema.Function
	p *java.Program
}

// compileJava compiles a body. Its errors are *Refused. The message for valid Java outside of the subset differs from
// the message for invalid Java, because its author can only rewrite it.
func compileJava(f *schema.Function) (program, error) {
	p, err := java.Compile(java.Function{Body: f.Body, ArgNames: f.ArgNames, ArgTypes: f.ArgTypes, Returns: f.Returns,
		CalledOnNull: f.CalledOnNull})
	var unsupported *java.Unsupported
	switch {
	case errors.As(err, &unsupported):
		return nil, &Refused{fmt.Sprintf("LANGUAGE java: %s. Only a subset of Java is executed; write the function "+
			"in Lua or WebAssembly instead",
			unsupported.Error())}
	// The message has the form of Cassandra's errors of the Java compiler.
	case err != nil:
		return nil, &Refused{"Java source compilation failed:\n" + err.Error() + "\n"}
	}
	return &javaProgram{f, p}, nil
}

// call implements program. Arguments and result are converted within the bounds of the call.
func (p *javaProgram) call(m *value.Meter, args [][]byte) (result []byte, err error) {
	values, err := fromCQL(m, p.f.ArgTypes, args)
	if err != nil {
		return nil, err
	}
	v, err := p.p.Run(m, values)
	if err != nil {
		return nil, err
	}
	// Converting the result counts memory, too, and may exceed the bounds.
	defer value.Catch(&err)
	return value.ToCQL(m, p.f.Returns, v), nil
}

// bytes implements program. It is an estimate from the length of the body.
func (p *javaProgram) bytes() int64 { return sourceBytes(p.f) }
