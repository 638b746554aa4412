package wasm

import (
	"bytes"
	"fmt"
)

// instructions rewrites the instructions of a function.
type instructions struct {
	*meter
	reader
	local uint32 // a variable that the function does not use

	out     []byte   // since the last of pieces
	pieces  [][]byte // the instructions before; what a region charges is a piece of its own
	regions []region // the open ones
	blocks  []bool   // the open blocks; true means a loop
}

// region is a function without its loops, or a loop without those within it.
type region struct {
	charge     int // the piece that charges for it
	operations int64
}

// rewrite appends the metered instructions to head.
func (w *instructions) rewrite(head []byte) ([]byte, error) {
	w.out = head
	w.blocks = []bool{false}
	w.region()
	for len(w.blocks) > 0 {
		if len(w.b) == 0 {
			return nil, errMalformed
		}
		if len(w.blocks) > nestingMax {
			return nil, fmt.Errorf("blocks are nested deeper than %d", nestingMax)
		}
		if len(w.pieces) > 2*loopsMax {
			return nil, fmt.Errorf("a function has more than %d loops", loopsMax)
		}
		if err := w.next(); err != nil {
			return nil, err
		}
	}
	if len(w.b) > 0 {
		return nil, errMalformed
	}
	return bytes.Join(append(w.pieces, w.out), nil), nil
}

// region begins a region here.
func (w *instructions) region() {
	w.pieces = append(w.pieces, w.out, nil)
	w.regions = append(w.regions, region{charge: len(w.pieces) - 1})
	w.out = nil
}

func (w *instructions) open(loop bool) {
	w.blocks = append(w.blocks, loop)
	if loop {
		w.region()
	}
}

// close ends a block, and the region of a loop or function.
func (w *instructions) close() {
	last := len(w.blocks) - 1
	loop := w.blocks[last]
	w.blocks = w.blocks[:last]
	if !loop && last > 0 {
		return
	}
	r := w.regions[len(w.regions)-1]
	w.regions = w.regions[:len(w.regions)-1]
	w.pieces[r.charge] = w.charge(r.operations)
}

// next copies one instruction.
func (w *instructions) next() error {
	before := w.b
	op := w.b[0]
	w.b = w.b[1:]
	w.regions[len(w.regions)-1].operations++
	if op == 0xfc {
		return w.extended(before)
	}
	if err := w.operands(op); err != nil {
		return err
	}
	if w.b == nil {
		return errMalformed
	}
	w.out = append(w.out, before[:len(before)-len(w.b)]...)
	switch op {
	case 0x02, 0x04: // block, if
		w.open(false)
	case 0x03: // loop
		w.open(true)
	case blockEnd:
		w.close()
	}
	return nil
}

// operands skips the operands of an instruction.
func (w *instructions) operands(op byte) error {
	switch {
	case op == 0x02 || op == 0x03 || op == 0x04 || op == 0x41 || op == 0x42: // a block's type, i32.const, i64.const
		w.leb()
	case op == 0x0c || op == 0x0d || op == 0x10 || op >= 0x20 && op <= 0x24: // br, br_if, call, variables
		w.leb()
	case op == 0x0e: // br_table
		n, ok := w.number()
		if !ok || uint64(n) > uint64(len(w.b)) {
			return errMalformed
		}
		for range n + 1 {
			w.leb()
		}
	case op == 0x11 || op >= 0x28 && op <= 0x3e: // call_indirect, loads and stores
		w.leb()
		w.leb()
	case op == 0x3f || op == 0x40: // memory.size, memory.grow
		w.leb()
	case op == 0x43: // f32.const
		w.skip(4)
	case op == 0x44: // f64.const
		w.skip(8)
	case op <= 0x01 || op == 0x05 || op == blockEnd || op == 0x0f || op == 0x1a || op == 0x1b || op >= 0x45 && op <= 0xc4:
	default:
		return fmt.Errorf("the instruction 0x%02x is not supported", op)
	}
	return nil
}

// extended copies an instruction with the prefix FC. Those on memory and tables charge for the elements that they process, whose number
// is on the stack.
func (w *instructions) extended(before []byte) error {
	sub, ok := w.number()
	bulk := true
	switch {
	case !ok || sub > 14:
		return fmt.Errorf("the instruction 0xfc 0x%02x is not supported", sub)
	case sub < 8: // saturating conversions
		bulk = false
	case sub == 9 || sub == 13: // data.drop, elem.drop
		bulk = false
		w.leb()
	case sub == 11: // memory.fill
		w.leb()
	default: // memory.init, memory.copy, table.init, table.copy
		w.leb()
		w.leb()
	}
	if w.b == nil {
		return errMalformed
	}
	if bulk {
		const tee, get = 0x22, 0x20
		w.out = appendUnsigned(append(w.out, tee), uint64(w.local))
		amount := appendUnsigned([]byte{get}, uint64(w.local))
		w.out = append(w.out, w.subtract(append(amount, 0xad, 0x42, 6, 0x88))...) // i64.extend_i32_u; i64.const 6; i64.shr_u
	}
	w.out = append(w.out, before[:len(before)-len(w.b)]...)
	return nil
}

// leb skips a LEB128 number.
func (r *reader) leb() {
	const bytesMax = 10
	for i := range min(bytesMax, len(r.b)) {
		if r.b[i] < 0x80 {
			r.b = r.b[i+1:]
			return
		}
	}
	r.b = nil
}

// skip skips n bytes; b is nil if there are fewer.
func (r *reader) skip(n uint32) {
	if uint64(n) > uint64(len(r.b)) {
		r.b = nil
		return
	}
	r.b = r.b[n:]
}
