package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/messaging"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
)

// openControl opens the control port. A node works without it, so only a port that was configured and cannot be opened
// is an error.
func (n *Node) openControl() error {
	n.control = control.NewServer(n.log, n.operatorAuthorizer())
	n.control.Guard, n.control.Observe = n.guard, n.auditControl
	n.handleOperations()
	if n.opts.ControlSocket {
		l, err := control.Listen(n.opts.DataDir)
		if err != nil {
			n.log.Warn("control socket not available", "err", err)
		} else {
			n.control.Serve(l, "")
		}
	}
	return n.openControlAddress()
}

// handleOperations registers the handler of every operation.
func (n *Node) handleOperations() {
	s := n.control
	control.Handle(s, control.StatusOf, n.opStatus)
	control.Handle(s, control.TokensOf, n.opTokens)
	control.Handle(s, control.DescribeCluster, n.opDescribeCluster)
	control.Handle(s, control.DescribeRing, n.opDescribeRing)
	control.Handle(s, control.EndpointsOf, n.opEndpoints)
	control.Handle(s, control.InfoOf, n.opInfo)
	control.Handle(s, control.SeedsOf, n.opSeeds)
	n.handleFigures()
	n.handleData()
	n.handleTopology()
	n.handleAccess()
	n.handleIndexes()
	s.Page("/metrics", n.metricsPage())
}

func (n *Node) handleFigures() {
	s := n.control
	control.Handle(s, control.StatsOfTables, n.opTableStats)
	control.Handle(s, control.HistogramsOf, n.opHistograms)
	control.Handle(s, control.TopPartitions, n.opTopPartitions)
	control.Handle(s, control.StatsOfPools, n.opPools)
	control.Handle(s, control.CompactionStats, n.opCompactions)
	control.Handle(s, control.NetStats, n.opNet)
	control.Handle(s, control.ClientStats, n.opClients)
	control.Handle(s, control.KillQuery, n.opKillQuery)
	control.Handle(s, control.PendingHintsOf, n.opPendingHints)
}

func (n *Node) handleData() {
	s := n.control
	control.Handle(s, control.Flush, n.opFlush)
	control.Handle(s, control.Compact, n.opCompact)
	control.Handle(s, control.Drain, n.opDrain)
	control.Handle(s, control.StopDaemon, n.opStop)
	control.Handle(s, control.TakeSnapshot, n.opSnapshot)
	control.Handle(s, control.ListSnapshots, n.opListSnapshots)
	control.Handle(s, control.ClearSnapshot, n.opClearSnapshot)
	control.Handle(s, control.BinaryOf, n.opBinaryOf)
	control.Handle(s, control.ReadyOf, n.opReady)
	control.Handle(s, control.SetBinary, n.opSetBinary)
	control.Handle(s, control.HandoffOf, n.opHandoffOf)
	control.Handle(s, control.SetHandoff, n.opSetHandoff)
	control.Handle(s, control.TimeoutsOf, n.opTimeouts)
	control.Handle(s, control.LoggingLevelOf, n.opLogging)
	control.Handle(s, control.SetLoggingLevel, n.opSetLogging)
	control.Handle(s, control.AuditLogOf, n.opAuditLog)
	control.Handle(s, control.SetAuditLog, n.opSetAuditLog)
	control.Handle(s, control.ReloadSSL, n.opReloadSSL)
	control.Handle(s, control.TablesAccountsOf, n.opTablesAccounts)
	control.Handle(s, control.CreateTablesAccount, n.opCreateTablesAccount)
	control.Handle(s, control.RotateTablesKey, n.opRotateTablesKey)
	control.Handle(s, control.SetTablesConsistency, n.opSetTablesConsistency)
	control.Handle(s, control.RemoveTablesAccount, n.opRemoveTablesAccount)
}

func (n *Node) handleTopology() {
	s := n.control
	control.Handle(s, control.Operations, n.opChanges)
	control.Handle(s, control.Repair, n.opRepair)
	control.Handle(s, control.Cleanup, n.opCleanup)
	control.Handle(s, control.Decommission, n.opDecommission)
	control.Handle(s, control.RemoveNode, n.opRemoveNode)
	control.Handle(s, control.Move, n.opMove)
	control.Handle(s, control.Rebuild, n.opRebuild)
	control.Handle(s, control.Abort, n.opAbort)
	control.Handle(s, control.ListJobs, n.opJobs)
	control.Handle(s, control.WatchJob, n.opWatchJob)
	control.Handle(s, control.CancelJob, n.opCancelJob)
	control.Handle(s, control.ResumeJob, n.opResumeJob)
}

func (n *Node) handleIndexes() {
	s := n.control
	control.Handle(s, control.RebuildIndex, n.opRebuildIndex)
	control.Handle(s, control.ViewBuildOf, n.opViewBuild)
	control.Handle(s, control.BuildThroughputOf, n.opBuildThroughput)
	control.Handle(s, control.SetBuildThroughput, n.opSetBuildThroughput)
}

// facts are properties of a node that it reports to all other nodes on request.
type facts struct {
	Build  string
	Schema string
	Load   int64 // bytes of data
	// ClockAhead is how far the node's clock is ahead of the others. ClockRefuses means that the node does not serve
	// requests for this reason.
	ClockAhead   time.Duration
	ClockRefuses bool
	// Unbuilt are the indexes, of views too, that the node has not built.
	Unbuilt []schema.StorageID
}

// factsTimeout bounds the wait for the answers of other nodes.
const factsTimeout = time.Second

// factsRequest is the only request of VerbControl. The first byte of a message identifies the request.
const factsRequest = 1

// serveControl answers requests from the control ports of other nodes.
func (n *Node) serveControl() {
	serve := func(_ ring.NodeID, p []byte, respond messaging.Respond) {
		if len(p) != 1 || p[0] != factsRequest {
			respond(nil, &messaging.RemoteError{Message: "unknown request"})
			return
		}
		b, err := json.Marshal(n.ownFacts())
		respond(b, err)
	}
	n.transport.Handle(messaging.Service{Verb: messaging.VerbControl, Name: "control", Blocking: true, Handler: serve})
}

func (n *Node) ownFacts() facts {
	f := facts{Build: control.Build(), Schema: n.cluster.Metadata().Schema.Version().String(), Load: n.load(),
		Unbuilt: n.ownUnbuilt()}
	f.ClockAhead, f.ClockRefuses = n.cluster.ClockOffset()
	return f
}

// load returns the size of the node's data in bytes: its live files and memtables, without logs and obsolete files.
func (n *Node) load() int64 {
	if m := n.engine.Metrics().Pebble; m != nil {
		total := m.Total()
		return total.TablesSize + int64(m.MemTable.Size)
	}
	return 0
}

// allFacts asks all live nodes. Nodes that do not answer in time are missing from the result.
func (n *Node) allFacts() map[ring.NodeID]facts {
	self := n.cluster.Self()
	out := map[ring.NodeID]facts{self: n.ownFacts()}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if m.ID == self || !n.cluster.Alive(m.ID) {
			continue
		}
		asked.Add(1)
		n.transport.Request(m.ID, messaging.VerbControl, []byte{factsRequest}, factsTimeout, func(p []byte, err error) {
			defer asked.Done()
			var f facts
			if err == nil && json.Unmarshal(p, &f) == nil {
				mu.Lock()
				defer mu.Unlock()
				out[m.ID] = f
			}
		})
	}
	asked.Wait()
	return out
}

// members returns all nodes, without their ownership. Load is set for the nodes in of.
func (n *Node) members(t *ring.Topology, of map[ring.NodeID]facts) []control.Member {
	out := make([]control.Member, 0, len(t.Nodes()))
	for _, m := range t.Nodes() {
		member := n.member(m)
		if f, ok := of[m.ID]; ok {
			member.Load = &f.Load
			member.ClockAhead, member.ClockRefuses = f.ClockAhead, f.ClockRefuses
		}
		out = append(out, member)
	}
	return out
}

func (n *Node) member(m *ring.Node) control.Member {
	out := control.Member{ID: uint64(m.ID), HostID: m.Host.String(), Address: m.Internode.String(),
		Native:     m.Native.String(),
		Datacenter: m.Datacenter, Rack: m.Rack, Up: n.cluster.Alive(m.ID), State: stateWord(m.State),
		Tokens: len(m.Tokens)}
	if v := n.cluster.Voters(); v != nil {
		out.Voter, out.Leader = slices.Contains(v.IDs, m.ID), v.Leader == m.ID
	}
	return out
}

// stateWord returns a state as nodetool writes it: Normal.
func stateWord(s ring.NodeState) string {
	word := s.String()
	return word[:1] + strings.ToLower(word[1:])
}

func (n *Node) opStatus(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Status, error) {
	m := n.cluster.Metadata()
	s := control.Status{Members: n.members(m.Topology, n.allFacts())}
	return s, ownership(&s, m.Schema, m.Topology, a.Keyspace)
}

func (n *Node) opTokens(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Tokens, error) {
	m := n.cluster.Metadata()
	r := control.Tokens{Status: control.Status{Members: n.members(m.Topology, n.allFacts())}}
	if err := ownership(&r.Status, m.Schema, m.Topology, a.Keyspace); err != nil {
		return r, err
	}
	for i, tok := range m.Topology.Tokens() {
		id := m.Topology.Owner(i).ID
		r.Tokens = append(r.Tokens, control.Token{Token: int64(tok),
			Member: slices.IndexFunc(r.Members, func(c control.Member) bool { return c.ID == uint64(id) })})
	}
	return r, nil
}

// ownership sets what each member owns: with the replication of the named keyspace, or with the replication that all
// user keyspaces share, or as first replica.
func ownership(s *control.Status, all *schema.Schema, t *ring.Topology, keyspace string) error {
	replication, uneven, err := replicationFor(all, keyspace)
	if err != nil {
		return err
	}
	s.Uneven, s.Effective = uneven, replication != nil
	owned := map[ring.NodeID]float64{}
	if replication == nil {
		for i, tok := range t.Tokens() {
			before := t.Tokens()[(i+len(t.Tokens())-1)%len(t.Tokens())]
			owned[t.Owner(i).ID] += ring.Range{Start: before, End: tok}.Share()
		}
	} else {
		for _, r := range t.Placement(*replication).Ranges(ring.FullRange()) {
			for _, id := range r.Replicas.Natural {
				owned[id] += r.Range.Share()
			}
		}
	}
	for i := range s.Members {
		s.Members[i].Owns = owned[ring.NodeID(s.Members[i].ID)]
	}
	return nil
}

// replicationFor returns the replication to compute ownership with. It returns nil if there are no user keyspaces, or
// if their replications differ; uneven then is true.
func replicationFor(all *schema.Schema, keyspace string) (r *ring.Replication, uneven bool, err error) {
	if keyspace != "" {
		k, err := replicated(all, keyspace)
		if err != nil {
			return nil, false, err
		}
		return &k.Replication, false, nil
	}
	for _, name := range all.KeyspaceNames() {
		k := all.Keyspace(name)
		if schema.IsSystem(name) || schema.IsReplicatedSystem(name) || schema.IsVirtualSystem(name) ||
			k.Replication.Class == ring.Local {
			continue
		}
		if r != nil && !r.Equal(k.Replication) {
			return nil, true, nil
		}
		r = &k.Replication
	}
	return r, false, nil
}

// replicated finds a keyspace that is replicated over the ring.
func replicated(all *schema.Schema, name string) (*schema.Keyspace, error) {
	k := all.Keyspace(name)
	if k == nil {
		// the wording of nodetool
		return nil, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("The keyspace %s, does not exist", name)}
	}
	if k.Replication.Class == ring.Local {
		return nil, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("keyspace %s is local to each node", name)}
	}
	return k, nil
}
