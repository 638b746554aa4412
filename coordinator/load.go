package coordinator

// Load is what waits for replicas at this moment, and the bounds beyond which requests are
// refused.
type Load struct {
	Writes, WriteBytes, Reads          int64
	WritesMax, WriteBytesMax, ReadsMax int64
}

// Load counts.
func (c *Coordinator) Load() Load {
	return Load{Writes: c.writing.Load(), WriteBytes: c.writeBytes.Load(), Reads: c.reading.Load(),
		WritesMax: c.limits.WritesInFlight, WriteBytesMax: c.limits.WriteBytesInFlight, ReadsMax: c.limits.ReadsInFlight}
}
