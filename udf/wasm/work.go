package wasm

import "fmt"

// estimate estimates the work of the compiler for one function, as its instructions are read. It never underestimates
// the values that are live at an edge, which are
//
//  1. the operands on the stack, whose number follows from the instructions, and
//  2. the local variables between their first and their last access. A variable that is read first has a value since
//     the beginning of the function, and one that is accessed in a loop can have a value during all iterations of the
//     outermost loop.
type estimate struct {
	work int64
	// The values that instructions compute. Each can need a place in the frame of a call.
	values int64
	edges  int64
	// The live values on the stack, summed over the edges.
	live int64

	// The number of operands on the stack.
	height int
	frames []frame
	// The code cannot be reached. Operands can be missing there, as the format allows.
	dead bool

	// Accesses of local variables so far.
	accesses int64
	locals   map[uint32]*lifetime
	// The edge after each outermost loop; 0 while the loop is open.
	loopEnds []int64
	loops    int // open ones
	// The first edge of the outermost open loop. Meaningless if loops is 0.
	loopFrom int64
}

// frame is an open block.
type frame struct {
	block signature
	// The number of values that a branch to the block brings: its results or, for a loop, its parameters.
	label int64
	// The height of the stack without the parameters. Instructions in the block do not reach below it.
	height int
	loop   bool
	dead   bool

	// Branches to the block so far.
	branches int64
	// Accesses of local variables before the block.
	accesses int64
}

// lifetime is the edges during which a local variable has a value.
type lifetime struct {
	from, to int64
	// The outermost loop of the last access, counted from 1; 0 means outside of loops.
	loop int
}

// newEstimate returns the estimate of a function before its first instruction. Parameters have values from the
// beginning.
func newEstimate(of signature, locals uint64) *estimate {
	e := &estimate{work: functionWork + int64(of.params)/parametersPerUnit + int64(locals)/localsPerUnit,
		locals: map[uint32]*lifetime{}}
	for i := range of.params {
		// From the first edge on.
		e.locals[i] = &lifetime{}
	}
	e.frames = append(e.frames, frame{block: of, label: int64(of.results)})
	e.edge(1)
	return e
}

// edge counts n edges here.
func (e *estimate) edge(n int64) {
	e.work += n * edgeWork
	e.edges += n
	// The operands on the stack are live at each of them.
	e.live += n * int64(e.height)
}

// total returns the work, after the last instruction. Local variables are added here, because their lifetimes are only
// known at the end.
func (e *estimate) total() int64 {
	live := e.live
	for _, l := range e.locals {
		to := l.to
		if l.loop > 0 {
			// The value is needed until the last iteration ends.
			to = e.loopEnds[l.loop-1]
		}
		live += to - l.from
	}
	return e.work + live + e.edges*e.edges/edgesPerUnit
}

// check fails as soon as the work is too much. It is called for each instruction and branch, so that a hostile module
// costs little.
func (e *estimate) check() error {
	if e.work+e.live+e.edges*e.edges/edgesPerUnit > functionWorkMax {
		return errFunctionWork
	}
	return nil
}

// local counts an access of a local variable.
func (e *estimate) local(i uint32, read bool) {
	e.accesses++
	l := e.locals[i]
	if l == nil {
		l = &lifetime{from: e.edges}
		// Written first in a loop: a later iteration may read it before.
		if e.loops > 0 {
			l.from = e.loopFrom
		}
		if read {
			// It has the value zero since the beginning.
			l.from = 0
		}
		e.locals[i] = l
	}
	l.to, l.loop = e.edges, 0
	if e.loops > 0 {
		l.loop = len(e.loopEnds)
	}
}

// stack changes the height of the stack.
func (e *estimate) stack(pops, pushes int) {
	// In dead code operands may be missing; the stack of the block around is not touched.
	base := e.frames[len(e.frames)-1].height
	e.height = max(e.height-pops, base) + pushes
}

// open opens a block.
func (e *estimate) open(of signature, edges int64, loop bool) {
	e.work += int64(of.params+of.results) / parametersPerUnit
	// The parameters belong to the block from here on.
	e.stack(int(of.params), 0)
	f := frame{block: of, label: int64(of.results), height: e.height, loop: loop, dead: e.dead, accesses: e.accesses}
	if loop {
		// A branch to a loop goes to its beginning, and brings its parameters.
		f.label = int64(of.params)
		if e.loops++; e.loops == 1 {
			e.loopFrom = e.edges
			e.loopEnds = append(e.loopEnds, 0)
		}
	}
	e.frames = append(e.frames, f)
	e.height += int(of.params)
	e.edge(edges)
}

// otherwise begins the other branch of an if.
func (e *estimate) otherwise() {
	f := e.frames[len(e.frames)-1]
	// The branch begins as the block did; what the first branch left does not count.
	e.height, e.dead = f.height+int(f.block.params), f.dead
	e.work += int64(f.block.params) / parametersPerUnit
}

// close closes a block.
func (e *estimate) close() {
	f := e.frames[len(e.frames)-1]
	e.frames = e.frames[:len(e.frames)-1]
	// The results replace what the block has left on the stack.
	e.height, e.dead = f.height+int(f.block.results), f.dead
	e.work += int64(f.block.results) / parametersPerUnit
	if len(e.frames) > 0 { // the end of the function merges nothing
		// At most the variables that were accessed in the block have several versions to merge.
		merged := min(e.accesses-f.accesses, int64(len(e.locals)))
		e.work += (f.branches + 1) * merged * merged / mergesPerUnit
	}
	if f.loop {
		// An inner loop has no end of its own: values live through the outermost one.
		if e.loops--; e.loops == 0 {
			e.loopEnds[len(e.loopEnds)-1] = e.edges
		}
	}
}

// branch counts n branches to the block at a depth: 0 is the innermost block. ok is false if there is no such block.
func (e *estimate) branch(depth uint32, n int64) (ok bool) {
	if uint64(depth) >= uint64(len(e.frames)) {
		return false
	}
	f := &e.frames[len(e.frames)-1-int(depth)]
	f.branches += n
	// Each value that the branch brings is moved.
	e.work += n * (1 + f.label)
	if !e.dead {
		e.edge(n)
	}
	return true
}

// unreachable says that the code that follows, up to the end of the block, is never executed. Branches in dead code
// count no edges.
func (e *estimate) unreachable() {
	e.dead = true
	e.height = e.frames[len(e.frames)-1].height
}

// call counts a call of a function.
func (e *estimate) call(of signature) {
	e.work += callWork + int64(of.params+of.results)
	// Arguments and results have places in the frame as well.
	e.values += int64(of.params + of.results)
	e.stack(int(of.params), int(of.results))
}

// plain counts an instruction that neither branches nor calls: its work, and its effect on the stack.
func (e *estimate) plain(op byte) {
	switch {
	case op == 0x1a || op == 0x21 || op == 0x24: // drop, local.set, global.set
		e.stack(1, 0)
	case op == 0x1b: // select
		e.stack(3, 1)
	// local.get, global.get, memory.size, constants
	case op == 0x20 || op == 0x23 || op == 0x3f || op >= 0x41 && op <= 0x44:
		e.stack(0, 1)
	case op >= 0x28 && op <= 0x35: // loads
		e.work += accessWork
	case op >= 0x36 && op <= 0x3e: // stores
		e.work += accessWork
		e.stack(2, 0)
	case op == 0x40: // memory.grow
		e.work += growWork
	case op >= 0x6d && op <= 0x70 || op >= 0x7f && op <= 0x82: // integer divisions
		e.work += accessWork
		e.stack(2, 1)
	case op >= 0xa8 && op <= 0xab || op >= 0xae && op <= 0xb1: // truncations
		e.work += truncationWork
	// Instructions with one operand and one result change nothing.
	case isBinary(op):
		e.stack(2, 1)
	}
}

// isBinary reports whether an instruction, which is no division, has two operands and a result.
func isBinary(op byte) bool {
	return op >= 0x46 && op <= 0x4f || op >= 0x51 && op <= 0x66 || op >= 0x6a && op <= 0x78 || op >= 0x7c &&
		op <= 0x8a ||
		op >= 0x92 && op <= 0x98 || op >= 0xa0 && op <= 0xa6
}

// metered counts the instructions that charge for a region.
func (e *estimate) metered() {
	e.work += callWork
	e.edge(ifEdges)
}

// bulk counts an instruction on memory or tables with three operands.
func (e *estimate) bulk() {
	e.work += bulkWork
	e.stack(3, 0)
	e.edge(bulkEdges)
	// The instructions that charge for its elements.
	e.metered()
}

// errFunctionWork and errModuleWork are the errors for code that takes the compiler too long.
var (
	errFunctionWork = fmt.Errorf("a function is too large: its instructions, branches and the values that are live "+
		"at branches are more than %d"+
		" units of work for the compiler; divide it into smaller functions", functionWorkMax)
	errModuleWork = fmt.Errorf("the module is too large: its instructions, branches and the values that are live at "+
		"branches are more than %d"+
		" units of work for the compiler", moduleWorkMax)
)
