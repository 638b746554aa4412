package wasm

// The bounds of a module. They are checked in one pass over its bytes, before the compiler sees it, and depend on
// nothing else, so a module that one node accepts compiles on every node.
const (
	// Of the binary format; the body in base64 is a third longer.
	moduleBytesMax = 1 << 20
	// The unit of memory of WebAssembly.
	pageBytes = 64 << 10
	tableMax  = 10000 // elements of a table
	// The rewriting keeps an entry for each open one.
	nestingMax = 500 // blocks within blocks of a function
	// Each loop is a region with a charge of its own.
	loopsMax   = 500   // of a function
	localsMax  = 50000 // of a function, with its parameters
	valuesMax  = 1000  // parameters, and results, of a type of functions
	globalsMax = 10000

	// functionWorkMax and moduleWorkMax bound the estimated work of the compiler. On each of the shapes in work_test.go
	// a unit takes at most about 2 µs and allocates at most 512 bytes; typical code takes a third of that. So the
	// compiler allocates at most 128 MiB for a function, which is its peak, because it uses its memory again for the
	// next function, and takes 2 s of one core for a module. 100 KiB of code that Rust, TinyGo or Zig have compiled are
	// 250,000 to 350,000 units, and their largest functions 100,000.
	functionWorkMax = 1 << 18
	moduleWorkMax   = 1 << 20
)

// The estimated work of the compiler, in units, measured with wazero 1.12. An edge is a branch of the control flow or a
// block that a branch can reach: the compiler's graph algorithms take time by the square of their number, and by the
// values that are live at each.
const (
	// A function without instructions.
	functionWork      = 8
	instructionWork   = 1
	accessWork        = 10 // loads, stores, and integer divisions
	truncationWork    = 16 // of floats, with traps
	callWork          = 5
	indirectWork      = 64
	growWork          = 4
	bulkWork          = 64
	edgeWork          = 8
	edgesPerUnit      = 256 // pairs of edges in a unit
	mergesPerUnit     = 256 // pairs of variables that a block merges, for each branch to it
	parametersPerUnit = 4
	localsPerUnit     = 64

	blockEdges  = 1
	loopEdges   = 3
	ifEdges     = 3
	branchEdges = 2
	bulkEdges   = 8

	// bytesPerOperation is the number of bytes that are copied or cleared in the time of an operation.
	bytesPerOperation = 64
	// valuesPerOperation is the number of values in the frame of a call that count as an operation. A value takes 16
	// bytes at most, so that the frames of a call take 256 bytes for each operation at most.
	valuesPerOperation     = 16
	frameBytesPerOperation = 16 * valuesPerOperation

	// quantum is the number of operations between two checks of the time. Native code cannot be interrupted, not even
	// by the garbage collector. Operations take 1 to 10 ns, so a quantum takes about 0.04 ms. Memory for the frames
	// of a quantum is reserved before it.
	quantum = 4096
	// firstQuantum is the first one of a call, so that most calls reserve little memory for their frames.
	firstQuantum = 256
	// stacksMax bounds the stacks of a call: the runtime ends it at 84 MB of frames, and while they grow there are 42
	// MB more. An argument's alloc has a stack of its own.
	stacksMax = 210 << 20
	// growMax is the number of pages to which no memory can grow, for which memory.grow therefore counts nothing.
	growMax = 1 << 14
)

// The bounds of instances that are kept for further calls. An instance counts as its memory and its stacks.
const (
	resetGlobalsMax  = 64      // mutable globals, which are reset one by one
	resetMemoryMax   = 2 << 20 // bytes of memory, which is cleared after each call (13 to 60 µs a MiB)
	instanceBytesMax = 4 << 20 // of one instance
)

// mappingMin is the size from which the touched pages of a memory are found and restored: to find them takes 2.5 µs, as
// long as to clear 192 KiB in the processor's cache.
const mappingMin = 256 << 10

// instanceBytes is what an instance needs besides its memory and its stacks: tables and globals.
const instanceBytes = 32 << 10

// codeBytesPerUnit is what a compiled module needs in memory for each unit of work; a unit is half an instruction or
// less.
const codeBytesPerUnit = 8

// What is reserved while a module is compiled: the compiler uses the memory of one function again for the next one.
const (
	compilerBytes              = 1 << 20
	compilerBytesPerModuleByte = 16
	compilerBytesPerUnit       = 512
)
