package coordinator

// InFlightCounts contains the coordinator's counts of requests in flight.
type InFlightCounts struct{ Writes, WriteBytes, Reads int64 }

// InFlight returns the counts for tests.
func InFlight(c *Coordinator) InFlightCounts {
	return InFlightCounts{c.writing.Load(), c.writeBytes.Load(), c.reading.Load()}
}
