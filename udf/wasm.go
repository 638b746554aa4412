package udf

import (
	"cqld/schema"
	"cqld/udf/value"
	"cqld/udf/wasm"
)

// wasmProgram is a function in WebAssembly.
type wasmProgram struct{ p *wasm.Program }

func compileWasm(f *schema.Function, limits value.Limits, pool *wasm.Pool, reserve func(bytes int64) error) (program,
	error) {
	p, err := wasm.Compile(wasm.Function{Body: f.Body, Name: f.Name, ArgTypes: f.ArgTypes, Returns: f.Returns,
		CalledOnNull: f.CalledOnNull},
		limits, pool, func(bytes int64) error { return reserve(programBytes + bytes) })
	if err != nil {
		return nil, &Refused{"WebAssembly compilation failed: " + err.Error()}
	}
	return &wasmProgram{p}, nil
}

func (p *wasmProgram) call(m *value.Meter, args [][]byte) ([]byte, error) { return p.p.Run(m, args) }

func (p *wasmProgram) bytes() int64 { return programBytes + p.p.Bytes() }
