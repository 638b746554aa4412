package coordinator

// Load contains the present load of requests that wait for replicas, and the bounds above which requests are refused.
type Load struct {
	Writes, WriteBytes, Reads          int64
	WritesMax, WriteBytesMax, ReadsMax int64
}

// Load returns the present load.
func (c *Coordinator) Load() Load {
	return Load{Writes: c.writing.Load(), WriteBytes: c.writeBytes.Load(), Reads: c.reading.Load(),
		WritesMax: c.limits.WritesInFlight, WriteBytesMax: c.limits.WriteBytesInFlight,
		ReadsMax: c.limits.ReadsInFlight}
}
