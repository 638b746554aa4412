package coordinator

// Grow reserves further memory for an operation, without waiting, and reports whether there is enough. The operation
// calls it in the goroutines of its events, one after the other, and never after it has called done. nil means no
// bound.
type Grow func(n int) bool

// Budget is the memory of an operation.
type Budget struct {
	Grow Grow
	held int
}

// Hold raises the reservation to n bytes if it is smaller. It fails with NeedsMemory if Grow refuses.
func (b *Budget) Hold(n int) error {
	if b.Grow == nil || n <= b.held {
		return nil
	}
	if !b.Grow(n - b.held) {
		// The caller repeats the operation with this size; doubling keeps repetitions few.
		return &NeedsMemory{Bytes: 2 * n}
	}
	b.held = n
	return nil
}
