package coordinator

// Batch applies mutations of several partitions: all of them in the end, or none.
func (c *Coordinator) Batch(req *WriteRequest, done func(error)) {
	c.Write(req, done)
}
