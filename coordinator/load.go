package coordinator

// Load is what waits for replicas at this moment, and the bounds beyond which requests are
// refused.
type Load struct {
	Writes, WriteBytes, Reads                int64
	WritesMax, WriteBytesMax, ReadsMax       int64
	HintBytes, HintBytesMax, HintBytesPerMax int64
}

// Load counts.
func (c *Coordinator) Load() Load {
	f := Load{Writes: c.writing.Load(), WriteBytes: c.writeBytes.Load(), Reads: c.reading.Load(),
		WritesMax: c.limits.WritesInFlight, WriteBytesMax: c.limits.WriteBytesInFlight, ReadsMax: c.limits.ReadsInFlight,
		HintBytesMax: c.limits.HintBytes, HintBytesPerMax: c.limits.HintBytesPerNode}
	if c.hints != nil {
		c.hints.mu.Lock()
		f.HintBytes = c.hints.mu.bytes
		c.hints.mu.Unlock()
	}
	return f
}

// KeepHints says whether new hints are kept from now on; those that are there are handed over either
// way. Replicas that miss a write without one wait for read repair or repair.
func (c *Coordinator) KeepHints(keep bool) {
	if c.hints != nil {
		c.hints.mu.Lock()
		c.hints.mu.refusing = !keep
		c.hints.mu.Unlock()
	}
}

// KeepsHints says whether new hints are kept.
func (c *Coordinator) KeepsHints() bool {
	if c.hints == nil {
		return false
	}
	c.hints.mu.Lock()
	defer c.hints.mu.Unlock()
	return !c.hints.mu.refusing
}
