package wasm

import (
	"bytes"
	"fmt"
)

// instructions rewrites the instructions of a function.
type instructions struct {
	*meter
	*estimate
	reader
	// local is the index of the variable that the meter adds. Code that uses it, or a later index, is malformed.
	local uint32

	out []byte // instructions since the last of pieces
	// pieces contains the instructions before out. The charge of a region is a separate piece, which is empty until
	// the region ends.
	pieces [][]byte
	// The open regions, the innermost last. There is always one.
	regions []region
	// The open blocks, the innermost last; true means a loop.
	blocks []bool
}

// region is a function without its loops, or a loop without those within it.
type region struct {
	charge     int // the piece that charges for it
	operations int64
}

// rewrite appends the metered instructions to head.
func (w *instructions) rewrite(head []byte) ([]byte, error) {
	w.out = head
	// The body of the function is a block, which its last end closes.
	w.blocks = []bool{false}
	w.region()
	for len(w.blocks) > 0 {
		// The code ends within a block.
		if len(w.b) == 0 {
			return nil, errMalformed
		}
		if len(w.blocks) > nestingMax {
			return nil, fmt.Errorf("blocks are nested deeper than %d", nestingMax)
		}
		// Two pieces for each region.
		if len(w.pieces) > 2*loopsMax {
			return nil, fmt.Errorf("a function has more than %d loops", loopsMax)
		}
		if err := w.next(); err != nil {
			return nil, err
		}
	}
	// Bytes after the end of the function.
	if len(w.b) > 0 {
		return nil, errMalformed
	}
	return bytes.Join(append(w.pieces, w.out), nil), nil
}

// region begins a region here.
func (w *instructions) region() {
	w.metered()
	w.pieces = append(w.pieces, w.out, nil)
	w.regions = append(w.regions, region{charge: len(w.pieces) - 1})
	w.out = nil
}

// block opens a block, whose type is its operand.
func (w *instructions) block(op byte) error {
	var of signature
	switch t := w.signed(); {
	// A type with parameters and results, by its index.
	case t >= 0 && t < int64(len(w.types)):
		of = w.types[t]
	case t >= 0:
		return errMalformed
	default:
		// Other negative numbers are types of values, that is, one result.
		const empty = -64
		if t != empty {
			of.results = 1
		}
	}
	edges := int64(blockEdges)
	switch op {
	case opIf:
		w.stack(1, 0)
		edges = ifEdges
	case opLoop:
		edges = loopEdges
	}
	w.estimate.open(of, edges, op == opLoop)
	w.blocks = append(w.blocks, op == opLoop)
	return nil
}

// end ends a block, and the region of a loop or function.
func (w *instructions) end() {
	w.estimate.close()
	last := len(w.blocks) - 1
	loop := w.blocks[last]
	w.blocks = w.blocks[:last]
	// Blocks and ifs belong to the region around them.
	if !loop && last > 0 {
		return
	}
	r := w.regions[len(w.regions)-1]
	w.regions = w.regions[:len(w.regions)-1]
	if last == 0 {
		// The frame of a call costs as well, so that recursion is bounded.
		r.operations += w.values / valuesPerOperation
	}
	w.pieces[r.charge] = w.charge(r.operations)
}

// next copies one instruction.
func (w *instructions) next() error {
	before := w.b
	op := w.byte()
	w.regions[len(w.regions)-1].operations++
	w.work += instructionWork
	// Most instructions compute a value; the estimate may be too high.
	w.values++
	if op == 0xfc {
		return w.extended(before)
	}
	if err := w.operands(op); err != nil {
		return err
	}
	// The operands ended before the function did.
	if w.b == nil {
		return errMalformed
	}
	// calls has appended the instruction, with the new index of its function.
	if op != opCall {
		w.out = append(w.out, w.since(before)...)
	}
	switch op {
	case opLoop:
		w.region()
	case blockEnd:
		w.end()
	}
	return w.check()
}

// The instructions that are named here.
const (
	// Without operands. Code after it is dead, as after a return or a branch.
	opUnreachable = 0x00
	// A type of a block follows.
	opBlock = 0x02
	opLoop  = 0x03
	opIf    = 0x04
	opElse  = 0x05
	// One depth follows, and after br_table several: the number of open blocks between the branch and its target.
	opBranch      = 0x0c
	opBranchIf    = 0x0d
	opBranchTable = 0x0e
	opReturn      = 0x0f
	// The index of a function or, for call_indirect, of a type and a table.
	opCall         = 0x10
	opCallIndirect = 0x11
	// The index of a variable or, below, of a global.
	opLocalGet   = 0x20
	opLocalTee   = 0x22
	opGlobalGet  = 0x23
	opGlobalSet  = 0x24
	opMemoryGrow = 0x40
	opRefFunc    = 0xd2
)

// operands skips the operands of an instruction, and adds its work to the estimate.
func (w *instructions) operands(op byte) error {
	switch {
	case op == opBlock || op == opLoop || op == opIf:
		return w.block(op)
	case op == opElse:
		w.otherwise()
	case op == opBranch || op == opBranchIf || op == opBranchTable:
		return w.branches(op)
	case op == opUnreachable || op == opReturn:
		w.unreachable()
	case op == opCall || op == opCallIndirect:
		return w.calls(op)
	case op >= opLocalGet && op <= opLocalTee:
		i, _ := w.number()
		// The variable that the meter adds is not accessible either.
		if i >= w.local {
			return errMalformed
		}
		w.estimate.local(i, op == opLocalGet)
	case op == opGlobalGet || op == opGlobalSet:
		if i, _ := w.number(); i >= w.globals { // the meter's own is not accessible
			return errMalformed
		}
	case op == 0x41 || op == 0x42: // i32.const, i64.const
		w.leb()
	case op >= 0x28 && op <= 0x3e: // loads and stores
		w.leb()
		w.leb()
		// Loads change nothing.
		w.uses.memory = w.uses.memory || op >= 0x36
	case op == opMemoryGrow:
		w.leb()
		w.growth()
	case op == 0x3f: // memory.size
		w.leb()
	case op == 0x43: // f32.const
		w.skip(4)
	case op == 0x44: // f64.const
		w.skip(8)
	// nop, end, drop, select, comparisons, arithmetic and conversions: no operands in the code.
	case op == 0x01 || op == blockEnd || op == 0x1a || op == 0x1b || op >= 0x45 && op <= 0xc4:
	default:
		return fmt.Errorf("the instruction 0x%02x is not supported", op)
	}
	w.plain(op)
	return nil
}

// growth charges for the additional pages of memory.grow, unless it must fail.
func (w *instructions) growth() {
	const operationsShift = 10 // pageBytes / bytesPerOperation operations a page
	local := appendUnsigned(nil, uint64(w.local))
	// The number of pages stays on the stack for memory.grow itself.
	w.out = append(append(w.out, opLocalTee), local...)
	// i64.extend_i32_u; i64.shl
	amount := append(append([]byte{opLocalGet}, local...), 0xad, 0x42, operationsShift, 0x86, 0x42, 0)
	// select takes the charge, or 0 if the number of pages is so large that the instruction fails.
	amount = appendSigned(append(append(append(amount, opLocalGet), local...), 0x41), growMax)
	w.out = append(w.out, w.subtract(append(amount, 0x4d, 0x1b))...) // i32.le_u; select
	w.metered()
}

// branches reads the targets of br, br_if and br_table.
func (w *instructions) branches(op byte) error {
	targets, each := uint32(1), int64(branchEdges)
	switch op {
	case opBranchTable:
		targets, each = w.count()+1, 1
		w.stack(1, 0)
	case opBranchIf:
		w.stack(1, 0)
	}
	for range targets {
		depth, ok := w.number()
		if !ok || !w.branch(depth, each) {
			return errMalformed
		}
		// In the loop, because br_table may have a target for each byte of the module.
		if err := w.check(); err != nil {
			return err
		}
	}
	// After br and br_table the code up to the end of the block is dead.
	if op != opBranchIf {
		w.unreachable()
	}
	return nil
}

// calls reads the operands of call and call_indirect.
func (w *instructions) calls(op byte) error {
	i, _ := w.number()
	if op == opCall {
		if int(i) >= len(w.functions) {
			return errMalformed
		}
		// The imported function has index 0, so all others are one higher.
		w.out = appendUnsigned(append(w.out, op), uint64(i)+hostFunctions)
		w.call(w.types[w.functions[i]])
		return nil
	}
	// The index of the table.
	w.leb()
	if int(i) >= len(w.types) {
		return errMalformed
	}
	w.work += indirectWork
	w.stack(1, 0)
	w.call(w.types[i])
	return nil
}

// extended copies an instruction with the prefix FC. Those on memory and tables charge for the elements that they
// process, whose number is on the stack.
func (w *instructions) extended(before []byte) error {
	sub, ok := w.number()
	bulk := true
	switch {
	// Instructions of later features follow, such as table.grow.
	case !ok || sub > 14:
		return fmt.Errorf("the instruction 0xfc 0x%02x is not supported", sub)
	case sub < 8: // saturating conversions
		bulk = false
	case sub == 9 || sub == 13: // data.drop, elem.drop
		bulk = false
		w.uses.segments = true
		w.leb()
	case sub == 11: // memory.fill
		w.uses.memory = true
		w.leb()
	default: // memory.init, memory.copy, table.init, table.copy
		w.uses.memory = true
		w.uses.segments = w.uses.segments || sub > 11
		w.leb()
		w.leb()
	}
	if w.b == nil {
		return errMalformed
	}
	if bulk {
		w.bulk()
		// The number of elements stays on the stack, and is divided by bytesPerOperation for the charge.
		const tee, get = 0x22, 0x20
		w.out = appendUnsigned(append(w.out, tee), uint64(w.local))
		amount := appendUnsigned([]byte{get}, uint64(w.local))
		// i64.extend_i32_u; i64.const 6; i64.shr_u
		w.out = append(w.out, w.subtract(append(amount, 0xad, 0x42, 6, 0x88))...)
	}
	w.out = append(w.out, w.since(before)...)
	return w.check()
}
