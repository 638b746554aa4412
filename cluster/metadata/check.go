package metadata

import (
	"errors"
	"fmt"

	"cqld/ring"
)

// Check returns an error if metadata from another node cannot be used, because structures derived from them would
// panic.
func (m *Metadata) Check() (err error) {
	defer func() {
		if p := recover(); p != nil { // panic here instead of in the users of the metadata
			err = fmt.Errorf("the metadata are inconsistent: %v", p)
		}
	}()
	// Nodes are sorted by id, so duplicates are neighbors. An id at or above nextNode would be assigned to another node
	// later.
	hosts := map[ring.HostID]bool{}
	for i, n := range m.Topology.Nodes() {
		if i > 0 && m.Topology.Nodes()[i-1].ID == n.ID || n.ID == 0 || n.ID >= m.nextNode || hosts[n.Host] {
			return fmt.Errorf("node %d is listed twice, or was never admitted", n.ID)
		}
		hosts[n.Host] = true
	}
	if err := m.checkOwners(); err != nil {
		return err
	}
	// The levels of keyspaces with EverywhereStrategy count the members.
	if m.Schema.WithEverywhere(ring.EverywhereOn(m.Topology.Nodes())) != m.Schema {
		return errors.New("a keyspace with EverywhereStrategy counts other members")
	}
	// Compute what the coordinator and the operations derive from a topology: they assume consistent metadata, and only
	// here is a panic recovered.
	for _, r := range replications(m.Schema) {
		m.Topology.Placement(r).Ranges(ring.FullRange())
		for _, o := range m.Topology.Operations() {
			m.Topology.Gains(o, r, 0)
		}
	}
	return nil
}
