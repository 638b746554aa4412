package wasm

import (
	"context"
	"fmt"
	"reflect"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"cqld/internal/memory"
	"cqld/udf/value"
)

// instance is an instance of a module. It is used by one call at a time. Between calls it is in its initial state.
type instance struct {
	p      *Program
	module api.Module
	// ctx is the context of all calls. The host function finds the instance in it.
	ctx context.Context
	f   api.Function
	// alloc is the module's allocator for arguments; nil if no argument is passed in memory.
	alloc api.Function
	// meter is the module's global with the remaining operations of the quantum.
	meter api.MutableGlobal
	// globals are the module's mutable globals, which reset restores.
	globals []resetGlobal
	stack   []uint64 // of parameters and results

	// call is the meter of the call in progress; nil while the instance is idle.
	call *value.Meter
	// left is the number of operations that the call may execute after the current quantum.
	left int64
	// stopped is the error with which the host ended the call, or nil. It replaces the less specific error of the
	// runtime.
	stopped error
	grants  int   // of quanta to the call
	granted int64 // operations, in all
	// frames is the number of bytes reserved for the stacks of the call.
	frames int64
	// written contains the ranges written by write since the last reset.
	written []span

	memory linearMemory
	// The stacks of the runtime's callers of f and alloc; nil if they are not known.
	stacks []reflect.Value
	// idle is the number of bytes that the pool counts for the instance, set by put.
	idle int64
	held memory.Held // reserved while it is idle
}

// resetGlobal is a mutable global with its initial value.
type resetGlobal struct {
	global  api.MutableGlobal
	initial uint64
}

// span is a range of memory.
type span struct{ at, size uint32 }

// instanceKey is the key of the instance in a context.
type instanceKey struct{}

// newInstance instantiates the module. Its start function counts as part of the call. After an error, newInstance
// frees everything.
func (p *Program) newInstance(call *value.Meter) (*instance, error) {
	i := &instance{p: p, call: call, left: p.limits.Steps - p.initialization,
		stack: make([]uint64, max(len(p.f.ArgTypes), 1))}
	// Reserve memory before the runtime allocates it.
	if err := call.Reserve(instanceBytes + p.memory); err != nil {
		return nil, err
	}
	i.memory = linearMemory{i: i, reserved: p.memory}
	// A mapping is worth its cost only if the memory is to be restored.
	if p.resets && p.uses.memory {
		i.memory.pages = p.pool.pages
	}
	i.ctx = experimental.WithMemoryAllocator(context.WithValue(context.Background(), instanceKey{}, i), &i.memory)
	var err error
	i.module, err = p.runtime.InstantiateModule(i.ctx, p.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		i.memory.Free()
		return nil, i.fault(err)
	}
	if i.stopped != nil { // by a start function that grows the memory
		i.close()
		return nil, i.stopped
	}
	// check has found the exports in the compiled module, so they exist.
	i.f = i.module.ExportedFunction(p.f.Name)
	if p.argsInMemory() {
		i.alloc = i.module.ExportedFunction("alloc")
	}
	// They exist once the runtime has made the callers.
	i.stacks = stacksOf(i.f, i.alloc)
	i.meter = meterOf(i.module)
	for _, index := range p.mutable {
		// The value at this point is the initial one: the start function has run.
		if g, ok := i.module.ExportedGlobal(globalName(index)).(api.MutableGlobal); ok {
			i.globals = append(i.globals, resetGlobal{g, g.Get()})
		}
	}
	// All instances have the same initial state, so store the state of the first.
	p.once.Do(func() { p.initial = i.initialState(i.left + int64(i.meter.Get())) })
	return i, nil
}

// meterOf returns the global of the module that contains the operations left. withMeter has exported it.
func meterOf(module api.Module) api.MutableGlobal {
	meter, _ := module.ExportedGlobal(meterName).(api.MutableGlobal)
	return meter
}

// begin prepares a call.
func (i *instance) begin(call *value.Meter) {
	i.call, i.left, i.stopped, i.grants, i.granted, i.frames = call, i.p.initial.operations, nil, 0, 0, 0
	// The first region of the function goes below zero and calls grant.
	i.meter.Set(0)
}

// grant is the host function that code calls when its quantum is used up, that is, when the meter is negative. It
// ends the call by a panic, which the runtime converts to an error. The quantum is never larger than what is left of
// the call's operations.
func grant(ctx context.Context, module api.Module, _ []uint64) {
	i, _ := ctx.Value(instanceKey{}).(*instance)
	meter := meterOf(module)
	// The meter is negative by what the code has used beyond its quantum.
	i.left += int64(meter.Get())
	granted := min(quantum, i.left)
	if i.grants++; i.grants == 1 {
		granted = min(firstQuantum, i.left)
	}
	switch {
	// The memory could not grow: the call ends here.
	case i.stopped != nil:
	case i.left < 0:
		i.stopped = &value.Exceeded{Reason: fmt.Sprintf("it executed more than %d operations", i.p.limits.Steps)}
	default:
		if i.stopped = i.call.Late(); i.stopped == nil {
			i.stopped = i.reserveFrames(granted)
		}
	}
	if i.stopped != nil {
		panic(i.stopped)
	}
	// The code has the quantum now; what it does not use is counted at the next grant.
	i.left -= granted
	meter.Set(uint64(granted))
}

// reserveFrames reserves memory for the stacks before the call executes n operations. A stack doubles when it is
// full, and the old one remains until its frames are copied. The error comes from the meter: *value.Exceeded or
// *value.Unavailable.
func (i *instance) reserveFrames(n int64) error {
	const grown = 3 // the old stack and one of twice its size
	if i.granted += n; i.stacks == nil {
		n = i.granted // the stacks of a start function, and of an unknown runtime, are not known
	}
	// The reservation only grows during a call, and ends with its account.
	needed := min(grown*(i.stackBytes()+n*frameBytesPerOperation), stacksMax)
	if needed <= i.frames {
		return nil
	}
	err := i.call.Reserve(needed - i.frames)
	if err == nil {
		i.frames = needed
	}
	return err
}

// stackBytes returns the size of the stacks.
func (i *instance) stackBytes() (n int64) {
	for _, s := range i.stacks {
		n += int64(s.Len()) * int64(s.Type().Elem().Size())
	}
	return n
}

// stacksOf returns the stacks of the runtime's callers of functions, which may be nil. The runtime does not export
// them, and allocates them without a bound that could be set. It returns nil if this version of the runtime has no such
// field: then reserveFrames assumes that all operations of a call are calls.
func stacksOf(functions ...api.Function) (stacks []reflect.Value) {
	for _, f := range functions {
		if f == nil {
			continue
		}
		// Reading an unexported field by reflection is allowed; only setting it is not.
		caller := reflect.Indirect(reflect.ValueOf(f))
		if caller.Kind() != reflect.Struct {
			return nil
		}
		stack := caller.FieldByName("stack")
		if stack.Kind() != reflect.Slice {
			return nil
		}
		stacks = append(stacks, stack)
	}
	return stacks
}

// fault converts an error of the runtime.
func (i *instance) fault(err error) error {
	if i.stopped != nil {
		return i.stopped
	}
	// A trap of the module, for example unreachable or a division by zero.
	return &value.Fault{Msg: err.Error()}
}

// write copies a value to memory, at an address that the module has chosen. It returns false if the range is outside of
// the memory.
func (i *instance) write(at uint32, b []byte) bool {
	// reset restores these bytes if the code itself changes no memory.
	i.written = append(i.written, span{at, uint32(len(b))})
	return i.module.Memory().Write(at, b)
}

// reset restores the initial state after a call. ok is false if that is not possible, or takes longer than a new
// instance.
func (i *instance) reset() (ok bool) {
	p := i.p
	// An instance that has become large is cheaper to replace than to keep.
	if !p.resets || i.bytes() > instanceBytesMax {
		return false
	}
	if p.hasMemory {
		memory := i.module.Memory()
		b, ok := memory.Read(0, memory.Size())
		if !ok || memory.Size() != p.initial.memory { // memory cannot shrink
			return false
		}
		switch {
		case !p.uses.memory: // only arguments were written
		// The touched pages contain the arguments, too.
		case i.memory.restore(&p.initial):
			i.written = i.written[:0]
		default:
			// The touched pages are unknown, so restore the whole memory.
			i.written = append(i.written[:0], span{0, memory.Size()})
		}
		for _, s := range i.written {
			p.initial.restore(b, int(s.at), int(s.at)+int(s.size))
		}
	}
	i.written = i.written[:0]
	for _, g := range i.globals {
		g.global.Set(g.initial)
	}
	// The meter of the call is not used after it.
	i.call = nil
	return true
}

// bytes returns what the instance needs in memory.
func (i *instance) bytes() int64 {
	return i.memory.bytes() + instanceBytes + i.stackBytes()
}

// close frees the memory of the instance. The instance must not be in the pool.
func (i *instance) close() { _ = i.module.Close(context.Background()) }

// initial is the state of an instance before its first call, which is the same for all instances of a program.
type initial struct {
	operations int64 // that are left
	// The size of the memory, in bytes.
	memory uint32
	// The address of the first byte that is not zero. Everything outside of bytes is zero.
	at    int
	bytes []byte // from there on
}

// initialState returns the state of a new instance. It does not read untouched pages, which would touch them.
func (i *instance) initialState(operations int64) initial {
	s := initial{operations: operations}
	if !i.p.hasMemory {
		return s
	}
	memory := i.module.Memory()
	s.memory = memory.Size()
	b, _ := memory.Read(0, s.memory)
	from, to := i.memory.used()
	// Only what differs from zero is kept: most memories begin with few bytes of data.
	for from < to && b[to-1] == 0 {
		to--
	}
	for from < to && b[from] == 0 {
		from++
	}
	s.at, s.bytes = from, append([]byte{}, b[from:to]...)
	return s
}

// restore restores the bytes of memory from one address to another.
func (s *initial) restore(memory []byte, from, to int) {
	clear(memory[from:to])
	from, to = max(from, s.at), min(to, s.at+len(s.bytes))
	if from < to {
		copy(memory[from:to], s.bytes[from-s.at:])
	}
}
