package azuretables

import (
	"slices"

	"cqld/azuretables/odata"
)

// The headers that report the cost of a request. Responses to queries always contain the first two; a request with
// "x-cqld-cost: true" gets all of them, even if it fails. The rows, the plan and the others are the figures of
// entity.Service for this request.
const (
	rowsHeader         = "x-cqld-rows-scanned"
	planHeader         = "x-cqld-plan" // absent if the request does not read entities
	tombstonesHeader   = "x-cqld-tombstones-scanned"
	partitionsHeader   = "x-cqld-partitions-scanned" // partitions with rows that were read
	commandsHeader     = "x-cqld-commands"           // commands that the request sent to replicas
	bytesHeader        = "x-cqld-bytes-read"
	replicasHeader     = "x-cqld-replicas"     // number of replicas contacted; clients need not know their addresses
	microsecondsHeader = "x-cqld-microseconds" // from the beginning of the request to its headers
)

// measure reads the header x-cqld-cost. Signatures do not cover it, because the Table service's signatures cover no
// x-ms headers either. A client without the key can therefore add it, which costs no more than a few headers. It is
// called before the request is executed.
func (c *call) measure() error {
	switch c.req.header.cost {
	case "true":
		// From here on, the entity service counts.
		c.request.Measure()
	case "", "false":
	default:
		return odata.Of(odata.InvalidHeaderValue)
	}
	return nil
}

// addCost adds the cost headers that the response to a measured request does not contain yet. It is the last step
// before the response is written.
func (c *call) addCost() {
	r, cost := c.resp, &c.request.Cost
	// Queries have added these two (response.page).
	if !slices.ContainsFunc(r.fields, func(f field) bool { return f.name == rowsHeader }) {
		r.addInt(rowsHeader, cost.Rows)
		if c.plan != "" {
			r.add(planHeader, c.plan)
		}
	}
	r.addInt(tombstonesHeader, cost.Tombstones)
	r.addInt(partitionsHeader, cost.Partitions)
	r.addInt(commandsHeader, cost.Commands)
	r.addInt(bytesHeader, cost.Bytes)
	r.addInt(replicasHeader, len(c.request.Replicas()))
	r.addInt(microsecondsHeader, int((c.server.o.Clock.Monotonic() - c.began).Microseconds()))
}
