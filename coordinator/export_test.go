package coordinator

// InFlightCounts is what the coordinator counts as under way.
type InFlightCounts struct{ Writes, WriteBytes, Reads int64 }

// InFlight shows the counts to tests.
func InFlight(c *Coordinator) InFlightCounts {
	return InFlightCounts{c.writing.Load(), c.writeBytes.Load(), c.reading.Load()}
}
