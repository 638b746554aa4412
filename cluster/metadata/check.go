package metadata

import (
	"fmt"

	"cqld/ring"
)

// Check returns the reason why metadata from another node cannot be used: structures built from them would panic.
func (m *Metadata) Check() (err error) {
	defer func() {
		if p := recover(); p != nil { // the panic must happen here rather than in the users of the metadata
			err = fmt.Errorf("the metadata are inconsistent: %v", p)
		}
	}()
	// Nodes are ordered by id, so two equal ids are neighbors. An id that is not below nextNode would be given to
	// another node later.
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
	// Compute what the coordinator and the operations compute from a topology: their code assumes consistent metadata,
	// and a panic is recovered only here.
	for _, r := range replications(m.Schema) {
		m.Topology.Placement(r).Ranges(ring.FullRange())
		for _, o := range m.Topology.Operations() {
			m.Topology.Gains(o, r, 0)
		}
	}
	return nil
}
