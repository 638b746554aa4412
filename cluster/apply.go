package cluster

import (
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// apply gives the metadata after c, the command at index. It depends on its arguments only, so all
// nodes come to the same. A refused command changes nothing but the list of recent ones.
func apply(m *Metadata, c *command, index uint64) (*Metadata, error) {
	if m.seen(c.ID) {
		return m, nil
	}
	next := *m
	var err error
	switch {
	case c.Found != nil:
		err = applyFound(&next, c.Found)
	case c.Admit != nil:
		err = applyAdmit(&next, c.Admit, index)
	case c.Update != nil:
		err = applyUpdate(&next, c.Update, index)
	case c.Schema != nil:
		err = applySchema(&next, c.Schema)
	default:
		err = &Refused{"empty command"}
	}
	if err != nil {
		next = *m
	} else {
		next.Epoch = index
	}
	recent := append(slices.Clone(m.recent), c.ID)
	next.recent = recent[max(0, len(recent)-recentMax):]
	return &next, err
}

func applyFound(m *Metadata, c *foundCommand) error {
	if m.Secret != nil {
		return &Refused{"the cluster has been founded"}
	}
	m.Secret = c.Secret
	return nil
}

func applyAdmit(m *Metadata, c *admitCommand, index uint64) error {
	if m.NodeByHost(c.Node.Host) != nil { // asked again: it is a member, perhaps at another address
		return applyUpdate(m, &updateCommand{c.Node}, index)
	}
	for _, n := range m.Topology.Nodes() {
		if n.Internode == c.Node.Internode {
			return &Refused{fmt.Sprintf("address %s belongs to node %s, whose disk this is not: "+
				"a node that lost its disk must be replaced, which is not supported yet", n.Internode, n.Host)}
		}
	}
	if ks := userKeyspaces(m.Schema); len(ks) > 0 && len(m.Topology.Nodes()) > 0 {
		return &Refused{fmt.Sprintf("a node cannot join a cluster that has keyspaces (%s): "+
			"moving data to a new node is not supported yet", ks[0])}
	}
	if c.Epoch != m.Topology.Epoch() {
		return errStaleTopology
	}
	node := &ring.Node{ID: m.nextNode, Host: c.Node.Host, Datacenter: c.Node.Datacenter, Rack: c.Node.Rack,
		Internode: c.Node.Internode, Native: c.Node.Native, State: ring.Normal, Tokens: c.Tokens, DiskID: c.Node.Disk}
	m.nextNode++
	m.Topology = ring.NewTopology(index, append(slices.Clone(m.Topology.Nodes()), node))
	return nil
}

// userKeyspaces are the keyspaces that users made.
func userKeyspaces(s *schema.Schema) (names []string) {
	for _, name := range s.KeyspaceNames() {
		if !schema.IsSystem(name) {
			names = append(names, name)
		}
	}
	return names
}

func applyUpdate(m *Metadata, c *updateCommand, index uint64) error {
	old := m.NodeByHost(c.Node.Host)
	if old == nil {
		return &Refused{fmt.Sprintf("node %s is not a member", c.Node.Host)}
	}
	if old.DiskID != c.Node.Disk {
		return &Refused{fmt.Sprintf("node %s came back with another disk: it must be replaced, which is not supported yet", old.Host)}
	}
	if old.Internode == c.Node.Internode && old.Native == c.Node.Native {
		return nil
	}
	var nodes []*ring.Node
	for _, n := range m.Topology.Nodes() {
		if n == old {
			changed := *old
			changed.Internode, changed.Native = c.Node.Internode, c.Node.Native
			n = &changed
		}
		nodes = append(nodes, n)
	}
	m.Topology = ring.NewTopology(index, nodes)
	return nil
}

func applySchema(m *Metadata, c *schemaCommand) error {
	change, err := schema.DecodeChange(c.Change)
	if err != nil {
		return &Refused{err.Error()}
	}
	s, err := schema.Apply(m.Schema, change)
	if err != nil {
		return err
	}
	m.Schema = s
	return nil
}
