// Package wasm executes user-defined functions that are compiled to WebAssembly.
//
// A module imports nothing, so it has no access to the host. Each call runs in an instance of the module in its initial
// state, whose memory and time are bounded; calls share nothing.
//
// A module exports its memory, the function with the name of the CQL function and, if an argument is not a number,
// alloc(size i32) i32. See docs/FUNCTIONS.md for how values are passed.
//
//	base64 ── Compile: bounds, withMeter, wazero ──▶ *Program
//	                                                    │ Run
//	          Pool ── take ──▶ instance ◀── newInstance ┘
//	           ▲                  │ alloc and copy arguments, call, copy the result
//	           └── put ◀── reset ─┘ (closed instead if the call failed or the state cannot be restored)
//
// Errors of Compile concern the module, or are reserve's. Errors of Run are *value.Exceeded, *value.Fault and
// *value.Unavailable.
package wasm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"cqld/internal/wire"
	"cqld/types"
	"cqld/udf/value"
)

// Program is a compiled module. It is immutable and safe for concurrent use.
type Program struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	f       Function
	limits  value.Limits
	pool    *Pool

	// uses describes the state that calls change and reset restores.
	uses uses
	// The indexes of the mutable globals.
	mutable   []uint32
	hasMemory bool
	// initialization is the number of operations that a new instance costs the call that needs it.
	initialization int64
	memory         int64 // bytes of a new instance
	// resets means that instances can be restored to their initial state and reused.
	resets bool
	// bytes is the estimated size of the compiled module.
	bytes int64

	once sync.Once
	// initial is the state of a new instance, set once by the first instance.
	initial initial
}

// Function is the input of Compile.
type Function struct {
	Body string // the module in base64
	// The name of the exported function, which is the name of the CQL function.
	Name     string
	ArgTypes []*types.Type
	Returns  *types.Type
	// Arguments may be null. Numbers are then passed in memory, too, where null has a representation.
	CalledOnNull bool
}

// Compile compiles a module and checks its exports. limits.go bounds its time and memory. It calls reserve with the
// bytes of memory that the compiler needs before it uses them. pool contains the idle instances.
func Compile(f Function, limits value.Limits, pool *Pool, reserve func(bytes int64) error) (*Program, error) {
	// Base64 has four characters for three bytes.
	if len(f.Body) > moduleBytesMax*4/3 {
		return nil, fmt.Errorf("the module has more than %d bytes", moduleBytesMax)
	}
	binary, err := base64.StdEncoding.DecodeString(f.Body)
	if err != nil {
		return nil, errors.New("the body is not a WebAssembly module in base64")
	}
	m, err := withMeter(binary)
	if err != nil {
		return nil, err
	}
	if err := reserve(m.compilerBytes()); err != nil {
		return nil, err
	}
	p := &Program{f: f, limits: limits, pool: pool, uses: m.uses, mutable: m.layout.mutable,
		initialization: m.layout.initialization,
		memory:         m.layout.memory, hasMemory: m.layout.hasMemory, bytes: int64(len(m.binary)) +
			m.work*codeBytesPerUnit}
	// Dropped segments cannot be restored, and resetting a large state is slower than a new instance.
	p.resets = !m.uses.segments && len(p.mutable) <= resetGlobalsMax && m.layout.memory <= resetMemoryMax
	ctx := context.Background()
	// One runtime for each program: programs share no modules and no compiled code.
	p.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features()).
		WithDebugInfoEnabled(false).
		WithMemoryLimitPages(uint32(limits.Bytes/pageBytes)))
	if err := p.compile(ctx, m.binary); err != nil {
		_ = p.runtime.Close(ctx)
		return nil, err
	}
	return p, nil
}

// compile compiles the rewritten module. Its host module has one function, grant, which only withMeter imports.
func (p *Program) compile(ctx context.Context, binary []byte) error {
	_, err := p.runtime.NewHostModuleBuilder(hostName).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(grant), nil, nil).Export(quantumName).Instantiate(ctx)
	if err != nil {
		return err
	}
	if p.module, err = p.runtime.CompileModule(ctx, binary); err != nil {
		return err
	}
	// After the compilation, which validates the module: exports are only known then.
	return p.check()
}

// features returns the extensions of WebAssembly 1.0 that modules can use.
func features() api.CoreFeatures {
	// Each extension adds instructions that the meter must know, so the list is closed.
	return api.CoreFeaturesV1 | api.CoreFeatureSignExtensionOps | api.CoreFeatureMultiValue |
		api.CoreFeatureNonTrappingFloatToIntConversion | api.CoreFeatureBulkMemoryOperations
}

// Bytes returns the approximate memory of the program in bytes.
func (p *Program) Bytes() int64 { return p.bytes + int64(len(p.f.Body)) }

// check checks what the module imports and exports. The messages name what the module should export.
func (p *Program) check() error {
	def := p.module.ExportedFunctions()[p.f.Name]
	if def == nil {
		return fmt.Errorf("the module does not export a function %q", p.f.Name)
	}
	var want []api.ValueType
	for _, t := range p.f.ArgTypes {
		want = append(want, p.valueType(t))
	}
	if !equal(def.ParamTypes(), want) || !equal(def.ResultTypes(), []api.ValueType{p.valueType(p.f.Returns)}) {
		return fmt.Errorf("the function %q must have the type (%s) -> %s", p.f.Name, names(want),
			names([]api.ValueType{p.valueType(p.f.Returns)}))
	}
	if p.inMemory() && len(p.module.ExportedMemories()) == 0 {
		return errors.New("the module does not export a memory")
	}
	// alloc must have its type if it is needed. Otherwise any export of that name is ignored.
	alloc := p.module.ExportedFunctions()["alloc"]
	if p.argsInMemory() && (alloc == nil || !equal(alloc.ParamTypes(), []api.ValueType{api.ValueTypeI32}) ||
		!equal(alloc.ResultTypes(), []api.ValueType{api.ValueTypeI32})) {
		return errors.New("the module does not export alloc(i32) -> i32")
	}
	return nil
}

// equal compares two lists of types. A type is a byte.
func equal(a, b []api.ValueType) bool { return string(a) == string(b) }

// names returns types as messages show them.
func names(list []api.ValueType) string {
	text := ""
	for i, t := range list {
		if i > 0 {
			text += ", "
		}
		text += api.ValueTypeName(t)
	}
	return text
}

// valueType returns the type that a CQL type is passed as. Values in memory are i64: the size in the upper 32 bits, the
// address in the lower ones.
func (p *Program) valueType(t *types.Type) api.ValueType {
	if !p.f.CalledOnNull {
		// Signed integers of up to 32 bits share i32; the size of the type is checked in result.
		switch t.Kind() {
		case types.Boolean, types.Tinyint, types.Smallint, types.Int:
			return api.ValueTypeI32
		case types.Bigint, types.Counter, types.Timestamp, types.Time:
			return api.ValueTypeI64
		case types.Float:
			return api.ValueTypeF32
		case types.Double:
			return api.ValueTypeF64
		}
	}
	return api.ValueTypeI64
}

// isDirect reports whether values of t are passed as numbers.
func (p *Program) isDirect(t *types.Type) bool {
	if p.f.CalledOnNull {
		return false
	}
	// The same types as in valueType.
	switch t.Kind() {
	case types.Boolean, types.Tinyint, types.Smallint, types.Int, types.Bigint, types.Counter, types.Timestamp,
		types.Time, types.Float, types.Double:
		return true
	}
	return false
}

// argsInMemory reports whether the module must export alloc.
func (p *Program) argsInMemory() bool {
	for _, t := range p.f.ArgTypes {
		if !p.isDirect(t) {
			return true
		}
	}
	return false
}

// inMemory reports whether the module must export its memory.
func (p *Program) inMemory() bool { return p.argsInMemory() || !p.isDirect(p.f.Returns) }

// null is the size of null.
const null = math.MaxUint32

// Run calls the function for arguments in wire form. Errors are *value.Exceeded and *value.Fault.
func (p *Program) Run(call *value.Meter, args [][]byte) ([]byte, error) {
	i := p.pool.take(p)
	if i == nil {
		var err error
		if i, err = p.newInstance(call); err != nil {
			return nil, err
		}
	} else {
		// The call reserves the memory of the instance before the pool returns its own reservation.
		err := call.Reserve(i.idle)
		p.pool.unreserve(i)
		if err != nil {
			i.close()
			return nil, err
		}
	}
	// From here on the host function counts for this call.
	i.begin(call)
	result, err := i.run(args)
	// After a failure the module may be in any state, so the instance is not used again.
	if err == nil && i.reset() {
		p.pool.put(i)
	} else {
		i.close()
	}
	return result, err
}

// run calls the function. The arguments are copied in their order, each by a call of alloc.
func (i *instance) run(args [][]byte) (result []byte, err error) {
	p := i.p
	for n, a := range args {
		if i.stack[n], err = i.param(p.f.ArgTypes[n], a); err != nil {
			return nil, err
		}
	}
	if err := i.f.CallWithStack(i.ctx, i.stack); err != nil {
		return nil, i.fault(err)
	}
	if i.stopped != nil { // memory.grow failed for the node's reasons, so the result may be another than elsewhere
		return nil, i.stopped
	}
	return p.result(i, i.stack[0])
}

// param returns an argument as a number, after copying it to the memory of the instance if it is not passed as one.
func (i *instance) param(t *types.Type, a []byte) (uint64, error) {
	p := i.p
	if !p.isDirect(t) {
		// null has no bytes and needs no memory.
		if a == nil {
			return null << 32, nil
		}
		// The stack of the call: the size as a parameter, and the address as the result.
		at := [1]uint64{uint64(len(a))}
		if err := i.alloc.CallWithStack(i.ctx, at[:]); err != nil {
			return 0, i.fault(err)
		}
		if !i.write(uint32(at[0]), a) {
			return 0, &value.Fault{Msg: fmt.Sprintf("alloc(%d) returned an address outside of the memory", len(a))}
		}
		// As valueType says: the size above, the address below.
		return uint64(len(a))<<32 | at[0]&math.MaxUint32, nil
	}
	switch t.Kind() {
	case types.Float, types.Double:
		f, _ := t.Float64(a)
		if t.Kind() == types.Float {
			return api.EncodeF32(float32(f)), nil
		}
		return api.EncodeF64(f), nil
	case types.Timestamp, types.Time:
		c := wire.NewCursor(a)
		return uint64(c.Int64()), nil
	case types.Boolean:
		if len(a) > 0 && a[0] != 0 {
			return 1, nil
		}
		return 0, nil
	}
	// Invalid bytes would be 0; arguments are valid for their types.
	n, _ := t.Int64(a)
	if p.valueType(t) == api.ValueTypeI32 {
		return api.EncodeI32(int32(n)), nil
	}
	return uint64(n), nil
}

// result returns the value of the function. A value in memory must be valid for its type.
func (p *Program) result(i *instance, v uint64) ([]byte, error) {
	t := p.f.Returns
	if !p.isDirect(t) {
		size := uint32(v >> 32)
		if size == null {
			return nil, nil
		}
		b, ok := i.module.Memory().Read(uint32(v), size)
		if !ok || int64(size) > p.limits.Output {
			return nil, &value.Fault{Msg: fmt.Sprintf("the result of %d bytes at %d is outside of the memory, or "+
				"too large", size, uint32(v))}
		}
		if err := i.call.Reserve(int64(size)); err != nil {
			return nil, err
		}
		// Copy the result, because the memory is reset or freed after the call.
		b = append([]byte{}, b...)
		// Validate the result, because the module may return any bytes.
		if err := t.Validate(b); err != nil {
			return nil, &value.Fault{Msg: err.Error()}
		}
		return t.Normalize(b), nil
	}
	switch t.Kind() {
	case types.Boolean:
		// Any number but 0 is true, as in C.
		return []byte{map[bool]byte{true: 1}[uint32(v) != 0]}, nil
	case types.Float:
		return t.AppendFloat64(nil, float64(api.DecodeF32(v))), nil
	case types.Double:
		return t.AppendFloat64(nil, api.DecodeF64(v)), nil
	case types.Timestamp, types.Time:
		b := wire.AppendInt64(nil, int64(v))
		if err := t.Validate(b); err != nil {
			return nil, &value.Fault{Msg: err.Error()}
		}
		return b, nil
	}
	// A result of type i32 is in the lower bits.
	n := int64(v)
	if p.valueType(t) == api.ValueTypeI32 {
		n = int64(api.DecodeI32(v))
	}
	if !t.Kind().FitsInt64(n) {
		return nil, &value.Fault{Msg: fmt.Sprintf("the result %d is out of the range of %s", n, t)}
	}
	return t.AppendInt64(nil, n), nil
}
