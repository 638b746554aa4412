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

// Hold reserves what is missing to n bytes, and fails with NeedsMemory.
func (b *Budget) Hold(n int) error {
	if b.Grow == nil || n <= b.held {
		return nil
	}
	if !b.Grow(n - b.held) {
		// Twice as much, so that repetitions are few.
		return &NeedsMemory{Bytes: 2 * n}
	}
	b.held = n
	return nil
}
