package udf

import (
	"cqld/schema"
	"cqld/udf/value"
	"cqld/udf/wasm"
)

// wasmProgram is a function in WebAssembly. Its instances are in a pool that all programs share.
type wasmProgram struct{ p *wasm.Program }

// compileWasm compiles a module. Its errors are *Refused. Runtime.compile finds an error of reserve by itself.
func compileWasm(f *schema.Function, limits value.Limits, pool *wasm.Pool, reserve func(bytes int64) error) (program,
	error) {
	p, err := wasm.Compile(wasm.Function{Body: f.Body, Name: f.Name, ArgTypes: f.ArgTypes, Returns: f.Returns,
		CalledOnNull: f.CalledOnNull},
		// The program itself needs memory besides what the compiler needs.
		limits, pool, func(bytes int64) error { return reserve(programBytes + bytes) })
	if err != nil {
		return nil, &Refused{"WebAssembly compilation failed: " + err.Error()}
	}
	return &wasmProgram{p}, nil
}

// call implements program. Values stay in wire form: the module reads and writes them in its memory. A wasm program
// counts its steps in compiled code.
func (p *wasmProgram) call(m *value.Meter, args [][]byte) ([]byte, error) { return p.p.Run(m, args) }

// bytes implements program.
func (p *wasmProgram) bytes() int64 { return programBytes + p.p.Bytes() }
