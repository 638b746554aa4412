package metadata

import (
	"fmt"
	"maps"
	"slices"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
)

// apply is Apply for a well-formed command.
func apply(m *Metadata, c *Command, index uint64) (*Metadata, error) {
	// A repeated proposal. The outcome of the first one stands, including a refusal.
	if m.seen(c.ID) {
		return m, nil
	}
	// Every node refuses the command, including nodes that would not understand it.
	if c.Version > m.ClusterVersion {
		return refuse(m, c, fmt.Sprintf("the command needs cluster version %d, the cluster has %d", c.Version,
			m.ClusterVersion))
	}
	// Shallow copy: the functions below replace the slices, maps and pointers that they change.
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
		err = applySchema(&next, c.Schema, index)
	case c.Roles != nil:
		err = applyRoles(&next, c.Roles)
	case c.Begin != nil:
		err = applyBegin(&next, c.Begin, index)
	case c.Streamed != nil:
		err = applyStreamed(&next, c.Streamed, index)
	case c.Excuse != nil:
		err = applyExcuse(&next, c.Excuse, index)
	case c.Known != nil:
		err = applyKnown(&next, c.Known, index)
	case c.Compared != nil:
		err = applyCompared(&next, c.Compared, index)
	case c.Handed != nil:
		err = applyHanded(&next, c.Handed, index)
	case c.End != nil:
		err = applyEnd(&next, c.End, index)
	case c.Abort != nil:
		err = applyAbort(&next, c.Abort, index)
	case c.Cleaned != nil:
		err = applyCleaned(&next, c.Cleaned)
	case c.PaxosFloor != nil:
		err = applyPaxosFloor(&next, c.PaxosFloor)
	case c.Settled != nil:
		applySettled(&next, c.Settled)
	case c.Regained != nil:
		applyRegained(&next, c.Regained)
	case c.Finalize != nil:
		err = applyFinalize(&next, c.Finalize)
	case c.BackupSchedule != nil:
		err = applySchedule(&next, c.BackupSchedule)
	default:
		err = &Refused{Reason: "empty command"}
	}
	// A function may have changed fields before it failed, so all changes are discarded. The id is recorded, so that a
	// repeated proposal cannot succeed after its proposer has reported the refusal.
	if err != nil {
		next = *m
	} else {
		next.Epoch = index
		followMembers(&next, m)
	}
	next.recent = appendRecent(m.recent, c.ID)
	return &next, err
}

// Apply returns the metadata after the command c at a log index. It refuses a command that makes apply panic. apply
// depends only on its arguments, so all nodes refuse the same commands.
func Apply(m *Metadata, c *Command, index uint64) (next *Metadata, err error) {
	invariant.Check(index > m.Epoch, "metadata: a command at %d follows epoch %d", index, m.Epoch)
	next, err = applyRecovered(m, c, index)
	// Checked outside the recover: a violated invariant is not harmless, even if all nodes refuse the same command.
	checkStep(m, next, err)
	return next, err
}

// applyRecovered is apply, but refuses a command that makes apply panic.
func applyRecovered(m *Metadata, c *Command, index uint64) (next *Metadata, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, err = refuse(m, c, fmt.Sprintf("the command is malformed: %v", p))
		}
	}()
	return apply(m, c, index)
}

// refuse records only the id of a command, and returns the refusal.
func refuse(m *Metadata, c *Command, reason string) (*Metadata, error) {
	refused := *m
	refused.recent = appendRecent(m.recent, c.ID)
	return &refused, &Refused{Reason: reason}
}

// followMembers sets the factors of keyspaces with EverywhereStrategy in m, which follows before, to the numbers of
// members. Operations move the ranges that members gain and lose, so no repair is needed as after a change of
// replication (noteFormer).
func followMembers(m, before *Metadata) {
	if m.Topology != before.Topology || m.Schema != before.Schema {
		m.Schema = m.Schema.WithEverywhere(ring.EverywhereOn(m.Topology.Nodes()))
	}
}

func appendRecent(recent []CommandID, id CommandID) []CommandID {
	recent = append(slices.Clone(recent), id)
	return recent[max(0, len(recent)-recentMax):]
}

// applyFound creates the cluster. After a crash, the founder proposes it again; the repeated command is refused, which
// the founder treats as success (package cluster).
func applyFound(m *Metadata, c *Found) error {
	if m.Secret != nil {
		return &Refused{Reason: "the cluster already exists"}
	}
	m.Schema = schema.Initial()
	if len(c.Schema) > 0 {
		s, err := schema.Decode(c.Schema)
		if err != nil {
			return &Refused{Reason: err.Error()}
		}
		m.Schema = s
	}
	m.Secret = c.Secret
	m.ClusterVersion = max(c.Version, m.ClusterVersion)
	return nil
}

// applyAdmit makes a node a member: immediately in a ring without data, and otherwise by an operation. The host and its
// address are checked first, because these messages tell the operator what to do.
func applyAdmit(m *Metadata, c *Admit, index uint64) error {
	if m.NodeByHost(c.Node.Host) != nil { // a repeated request: the node is a member, perhaps at another address
		return applyUpdate(m, &Update{c.Node}, index)
	}
	if reason, ok := m.RemovalReason(c.Node.Host); ok {
		return &Refused{Reason: reason}
	}
	for _, n := range m.Topology.Nodes() {
		if n.Internode == c.Node.Internode && n.ID != c.Replaced {
			return &Refused{Reason: fmt.Sprintf("address %s belongs to node %s, but this is not its disk. A node "+
				"that lost "+
				"its disk must be replaced: start it with replace_address_first_boot (--replace) %s", n.Internode,
				n.Host, n.Internode.Addr())}
		}
	}
	if c.Epoch != m.Topology.Epoch() {
		return ErrStaleTopology
	}
	// A replacement takes over the tokens of the replaced node.
	if err := CheckTokens(m.Topology, c.Tokens, 0); c.Replaced == 0 && err != nil {
		return err
	}
	if err := m.CheckVersions(&c.Node); err != nil {
		return err
	}
	// If the admission fails, apply discards nextNode with the other changes, so the id is not used.
	node := &ring.Node{ID: m.nextNode, Host: c.Node.Host, Datacenter: c.Node.Datacenter, Rack: c.Node.Rack,
		Internode: c.Node.Internode, Native: c.Node.Native, State: ring.Normal, Tokens: c.Tokens, DiskID: c.Node.Disk,
		Versions: c.Node.Versions.OrFirst()}
	// Without user data, no range has to be streamed.
	if c.Replaced != 0 || len(userKeyspaces(m.Schema)) > 0 && len(m.Topology.Nodes()) > 0 {
		if err := admitToFetch(m, c, node, index); err != nil {
			return err
		}
	} else {
		m.Topology = ring.NewTopology(index, append(slices.Clone(m.Topology.Nodes()), node))
	}
	m.nextNode++
	return nil
}

// CheckTokens refuses an empty or too long list of tokens, duplicates, and tokens that belong to a node other than
// self.
func CheckTokens(t *ring.Topology, tokens []ring.Token, self ring.NodeID) error {
	if len(tokens) == 0 || len(tokens) > NumTokensMax {
		return &Refused{Reason: fmt.Sprintf("a node cannot have %d tokens", len(tokens))}
	}
	// One pass over the ring, because the list and the ring can both be long.
	owned := make(map[ring.Token]bool, len(tokens))
	for _, tok := range tokens {
		if owned[tok] {
			return &Refused{Reason: fmt.Sprintf("token %s is listed twice", tok)}
		}
		owned[tok] = true
	}
	for i, tok := range t.Tokens() {
		if owned[tok] && t.Owner(i).ID != self {
			return &Refused{Reason: fmt.Sprintf("token %s is owned by node %s", tok, t.Owner(i).Host)}
		}
	}
	// Tokens of an operation become tokens of the ring when the operation ends; while it is switching, they may be part
	// of the ring already.
	for _, o := range t.Operations() {
		for _, tok := range o.Tokens {
			if owned[tok] && o.Node != self {
				return &Refused{Reason: fmt.Sprintf("token %s is being moved to node %d", tok, o.Node), Busy: true}
			}
		}
		for _, x := range o.Transfers {
			if owned[x.Token] {
				return &Refused{Reason: fmt.Sprintf("token %s is being reassigned", x.Token), Busy: true}
			}
		}
	}
	return nil
}

// admitToFetch makes node a member that receives its tokens only after it has streamed its data.
func admitToFetch(m *Metadata, c *Admit, node *ring.Node, index uint64) error {
	// Until the operation ends, the node is a member without tokens: it receives the metadata and heartbeats, but no
	// reads.
	o := &ring.Operation{ID: index, Kind: ring.Join, Node: node.ID, Tokens: c.Tokens, Phase: ring.Streaming}
	if c.Replaced != 0 {
		old := m.Topology.Node(c.Replaced)
		if old == nil {
			return &Refused{Reason: "the node to be replaced is no longer a member"}
		}
		// The new node takes over the old node's ranges. In another data center it would not be a replica of them under
		// NetworkTopologyStrategy.
		if old.Datacenter != node.Datacenter {
			return &Refused{Reason: fmt.Sprintf("node %s is in data center %s: it cannot be replaced by a node in %s",
				old.Host, old.Datacenter, node.Datacenter)}
		}
		o.Kind, o.Replaced, o.Tokens = ring.Replace, c.Replaced, nil
	}
	node.State, node.Tokens = ring.Joining, nil
	return m.begin(o, append(slices.Clone(m.Topology.Nodes()), node), index)
}

// userKeyspaces returns the keyspaces that users created.
func userKeyspaces(s *schema.Schema) (names []string) {
	for _, name := range s.StoredKeyspaceNames() {
		if !schema.IsSystem(name) {
			names = append(names, name)
		}
	}
	return names
}

// applyUpdate changes the addresses and versions of a member that still has its disk. No range moves, so the epoch of
// the last movement stays, and request plans made for the previous topology remain valid.
func applyUpdate(m *Metadata, c *Update, index uint64) error {
	old := m.NodeByHost(c.Node.Host)
	if old == nil {
		return &Refused{Reason: fmt.Sprintf("node %s is not a member", c.Node.Host)}
	}
	if old.DiskID != c.Node.Disk {
		return &Refused{Reason: fmt.Sprintf("node %s returned with another disk: it must be replaced", old.Host)}
	}
	if err := m.CheckVersions(&c.Node); err != nil {
		return err
	}
	versions := c.Node.Versions.OrFirst()
	// A repeated join request usually has the same addresses, and must not create a new topology.
	if old.Internode == c.Node.Internode && old.Native == c.Node.Native && old.Versions == versions {
		return nil
	}
	var nodes []*ring.Node
	for _, n := range m.Topology.Nodes() {
		if n == old {
			changed := *old
			changed.Internode, changed.Native, changed.Versions = c.Node.Internode, c.Node.Native, versions
			n = &changed
		}
		nodes = append(nodes, n)
	}
	m.Topology = ring.NewMovingTopology(index, m.Topology.Moved(), nodes, m.Topology.Operations())
	return nil
}

// applySchema changes the schema, and in the same command everything that depends on it: former replications, grants
// and Paxos low bounds.
func applySchema(m *Metadata, c *SchemaChange, index uint64) error {
	change, err := schema.DecodeChange(c.Change)
	if err != nil {
		return &Refused{Reason: err.Error()}
	}
	s, err := schema.Apply(m.Schema, change)
	if err != nil {
		return err
	}
	// The proposer may have known other members.
	s = s.WithEverywhere(ring.EverywhereOn(m.Topology.Nodes()))
	// The ranges gained by an operation were computed from the replication at its start. If that changed, nodes would
	// stream ranges that they do not need, and miss ranges that they do need.
	if alter, ok := change.(*schema.AlterKeyspace); ok && len(m.Topology.Operations()) > 0 {
		old, now := m.Schema.Keyspace(alter.Keyspace), s.Keyspace(alter.Keyspace)
		if old != nil && now != nil && !old.Replication.Equal(now.Replication) {
			return &Refused{Busy: true, Reason: "the replication of a keyspace cannot change while the ring is " +
				"changing: " + m.describe(m.Topology.Operations()[0])}
		}
	}
	undropped, restoresKeyspace := change.(*schema.UndropKeyspace)
	if restoresKeyspace && len(m.Topology.Operations()) > 0 {
		// Stream sessions of an operation name keyspaces, and a source must know the name that the other node used in
		// its plan.
		return &Refused{Busy: true, Reason: "a keyspace cannot be restored while the ring is changing: " +
			m.describe(m.Topology.Operations()[0])}
	}
	// Renamed first, because noteFormer removes former replications whose keyspace it does not find.
	m.Former = renamedFormer(m, s, undropped)
	// Called before m.Schema changes, because noteFormer compares it with s.
	if err := m.noteFormer(s, c.At, index); err != nil {
		return err
	}
	// Restoring a table does not make the client its creator: the client may have had no permission on it.
	creator := c.Creator
	undrop, restores := change.(*schema.UndropTable)
	if restores || restoresKeyspace {
		creator = "" // a restored element gets its previous grants
	}
	roles, err := rolesAfter(m.Roles, m.Schema, s, creator)
	if err != nil {
		return err
	}
	if restores {
		roles = restoreGrants(roles, m.RetainedGrants, undrop)
	}
	if restoresKeyspace {
		roles = restoreKeyspaceGrants(roles, m.RetainedKeyspaceGrants, undropped)
	}
	// Called with the previous schema, which still contains the dropped tables.
	m.retainGrants(s)
	m.retainKeyspaceGrants(s)
	m.Schema, m.Roles = s, roles
	m.dropPaxosFloors()
	return nil
}

// applyPaxosFloor raises the low bound of a table. Acceptors purge state up to the bound only after they have applied
// this command.
func applyPaxosFloor(m *Metadata, c *PaxosFloor) error {
	if m.Schema.TableByStorage(c.Table) == nil {
		return &Refused{Reason: "the table no longer exists"}
	}
	if m.PaxosFloors[c.Table] >= c.Micros {
		return nil // another node raised it first
	}
	// Clone, because readers share the map.
	floors := maps.Clone(m.PaxosFloors)
	if floors == nil {
		floors = map[schema.StorageID]int64{}
	}
	floors[c.Table] = c.Micros
	m.PaxosFloors = floors
	return nil
}

// dropPaxosFloors removes the low bounds of dropped tables.
func (m *Metadata) dropPaxosFloors() {
	gone := func(id schema.StorageID, _ int64) bool { return m.Schema.TableByStorage(id) == nil }
	// A table that is created again under the same name has a new storage id and no bound.
	floors := maps.Clone(m.PaxosFloors)
	if maps.DeleteFunc(floors, gone); len(floors) < len(m.PaxosFloors) {
		m.PaxosFloors = floors
	}
}
