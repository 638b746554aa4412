package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/rebalance"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// opRepair makes the replicas of tables equal, as a job.
func (n *Node) opRepair(ctx context.Context, a control.RepairArgs, report control.Report) (control.RepairResult,
	error) {
	plan, err := n.repairPlan(&a)
	if err != nil {
		return control.RepairResult{}, err
	}
	if len(plan.Scope.Nodes) > 0 && n.repairer.Ranges(&plan) == 0 {
		return control.RepairResult{}, &control.Error{Code: control.Refused, Message: fmt.Sprintf(
			"no range of %s has more than one replica on %s", targetOf(a.TablesArgs), strings.Join(a.Hosts, ", "))}
	}
	result := make(chan repair.Summary, 1) // of the attempt
	err = n.startJob(ctx, jobs.Repair, repairTarget(&a), jobs.Ranges, a, n.repairWork(a, result), report)
	if err != nil {
		return control.RepairResult{}, err
	}
	return control.RepairResult(<-result), nil
}

// repairWork returns the work of a repair. Before the repair, corrupt files are taken out of service, so that their
// data is streamed from the other replicas; a restricted repair leaves these ranges lost. result, which may be nil,
// receives the figures of a successful repair.
func (n *Node) repairWork(a control.RepairArgs, result chan<- repair.Summary) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		lost, err := n.engine.Quarantine()
		if err != nil {
			return err
		}
		for _, l := range lost {
			n.log.Warn("corrupt file removed", "table", n.schema().NameOf(l.Table), "tokens", l.Tokens.String(),
				"file", l.Path)
		}
		plan, err := n.repairPlan(&a)
		if err != nil {
			return err
		}
		if !a.Restricted() {
			if err := n.fetchLost(ctx, j); err != nil {
				return err
			}
		}
		sum, err := n.repairTables(ctx, j, plan)
		if err != nil {
			return err
		}
		for _, l := range n.engine.Lost() {
			if !a.Restricted() && n.schema().TableByStorage(l.Table) != nil {
				return &control.Error{Code: control.Failed, Message: fmt.Sprintf(
					"tokens %v of table %s were lost in %s and are not repaired yet: repair again when all their "+
						"replicas are up", l.Tokens, n.schema().NameOf(l.Table), l.Path)}
			}
		}
		s, err := n.jobs.Get(j.ID())
		if err != nil {
			return err
		}
		j.Progress(s.Total, s.Total, fmt.Sprintf("%d ranges compared, %d parts were different, %d rows sent, %d "+
			"ranges skipped",
			sum.Ranges, sum.Different, sum.Rows, sum.Skipped+sum.Moving))
		if result != nil {
			result <- sum
		}
		return nil
	}
}

func (n *Node) schema() *schema.Schema { return n.cluster.Metadata().Schema }

// dropped reports whether an operation failed because its table was dropped.
func (n *Node) dropped(id schema.StorageID, err error) bool {
	return err != nil && n.schema().Dropped(id)
}

// repairTarget describes for operators what a repair covers.
func repairTarget(a *control.RepairArgs) string {
	target := targetOf(a.TablesArgs)
	switch {
	case a.LocalDatacenter:
		return target + " in the local data center"
	case len(a.Datacenters) > 0:
		return target + " in " + strings.Join(a.Datacenters, ", ")
	case len(a.Hosts) > 0:
		return target + " on " + strings.Join(a.Hosts, ", ")
	}
	return target
}

// repairScope returns the replicas that a repair covers.
func (n *Node) repairScope(a *control.RepairArgs) (s repair.Scope, err error) {
	topology, chosen := n.cluster.Metadata().Topology, 0
	for _, is := range []bool{a.LocalDatacenter, len(a.Datacenters) > 0, len(a.Hosts) > 0} {
		if is {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return s, &control.Error{Code: control.Invalid,
			Message: "--in-local-dc, --in-dc and --in-hosts cannot be combined"}
	case chosen > 0 && a.Corrupted:
		return s, &control.Error{Code: control.Invalid,
			Message: "--corrupted needs all replicas, and cannot be combined with --in-local-dc, --in-dc or --in-hosts"}
	}
	s.Datacenters = slices.Clone(a.Datacenters)
	if self := topology.Node(n.cluster.Self()); a.LocalDatacenter && self != nil {
		s.Datacenters = []string{self.Datacenter}
	}
	for _, name := range s.Datacenters {
		if err := knownDatacenter(topology, name); err != nil {
			return s, err
		}
	}
	for _, name := range a.Hosts {
		m := n.findMember(name)
		if m == nil {
			return s, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("node %s does not exist", name)}
		}
		s.Nodes = append(s.Nodes, m.ID)
	}
	return s, nil
}

// repairPlan returns what a repair covers: the whole ring, some tables, or only the ranges that this node has lost.
func (n *Node) repairPlan(a *control.RepairArgs) (plan repair.Plan, err error) {
	tables, err := n.tablesOf(a.TablesArgs)
	if err != nil {
		return plan, err
	}
	plan = repair.Plan{SkipDown: true, Keep: !a.Corrupted}
	if plan.Scope, err = n.repairScope(a); err != nil {
		return plan, err
	}
	for _, t := range tables {
		if t.Replication.Class == ring.Local {
			continue
		}
		target := repair.Target{Name: t.Keyspace + "." + t.Name, Table: t.StorageID, Range: ring.FullRange()}
		if !a.Corrupted {
			plan.Targets = append(plan.Targets, target)
			continue
		}
		for _, l := range n.engine.Lost() {
			if l.Table == t.StorageID {
				target.Range = l.Tokens
				plan.Targets = append(plan.Targets, target)
			}
		}
	}
	byName := func(a, b repair.Target) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(plan.Targets, byName)
	if plan.Keep { // an operator may name a table twice
		plan.Targets = slices.CompactFunc(plan.Targets, func(a, b repair.Target) bool { return a.Name == b.Name })
	}
	return plan, nil
}

// repairTables runs a repair and waits for it.
func (n *Node) repairTables(ctx context.Context, j *jobs.Job, plan repair.Plan) (repair.Summary, error) {
	type outcome struct {
		sum repair.Summary
		err error
	}
	ended := make(chan outcome, 1)
	t := n.repairer.StartTables(j, plan, func(sum repair.Summary, err error) { ended <- outcome{sum, err} })
	select {
	case o := <-ended:
		return o.sum, o.err
	case <-ctx.Done():
	}
	t.Cancel()
	o := <-ended
	return o.sum, o.err
}

// fetchLost restores what was lost of this node's local tables. The Paxos promises are streamed from all other members:
// at least one of them has any state that a quorum has. Other local data has no replicas and cannot be restored.
func (n *Node) fetchLost(ctx context.Context, j *jobs.Job) error {
	for _, l := range n.engine.Lost() {
		t := n.schema().TableByStorage(l.Table)
		if t != nil && t.Replication.Class != ring.Local {
			if err := n.liftForeign(t, &l); err != nil {
				return err
			}
			continue
		}
		if t != nil && t.Keyspace == "system" && t.Name == "paxos" {
			j.Progress(0, 0, "streaming Paxos state")
			if err := n.fetchFromAll(ctx, &l); err != nil {
				return err
			}
		}
		if err := n.engine.Lift(l.Table, l.Tokens, l.Since); err != nil {
			return err
		}
	}
	return nil
}

// liftForeign removes the loss marks of ranges that this node does not replicate.
func (n *Node) liftForeign(t *schema.Table, l *storage.LostRange) error {
	for _, piece := range n.cluster.Metadata().Topology.Placement(t.Replication).Ranges(l.Tokens) {
		if piece.Replicas.Contains(n.cluster.Self()) {
			continue
		}
		if err := n.engine.Lift(l.Table, piece.Range, l.Since); err != nil {
			return err
		}
	}
	return nil
}

// fetchFromAll streams the states of a lost range from all other replicas, for each keyspace in the ranges that this
// node replicates.
func (n *Node) fetchFromAll(ctx context.Context, l *storage.LostRange) error {
	m := n.cluster.Metadata()
	for _, name := range m.Schema.KeyspaceNames() {
		replication := m.Schema.Keyspace(name).Replication
		if replication.Class == ring.Local {
			continue
		}
		for _, piece := range m.Topology.Placement(replication).Ranges(l.Tokens) {
			if !piece.Replicas.Contains(n.cluster.Self()) {
				continue
			}
			for _, member := range m.Topology.Nodes() {
				if member.ID == n.cluster.Self() || !piece.Replicas.Involves(member.ID) {
					continue
				}
				if err := n.fetchStates(ctx, rebalance.Session{
					ID:    fmt.Sprintf("lost %d %v %d %d %s", l.Table, piece.Range, l.Since, member.ID, name),
					Epoch: m.Topology.Epoch(), Table: l.Table, Range: piece.Range, Source: member.ID,
					Keyspaces: []string{name}, Restore: true,
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fetchStates runs a session and waits for it.
func (n *Node) fetchStates(ctx context.Context, s rebalance.Session) error {
	ended := make(chan error, 1)
	n.streams.Start(s, nil, func(err error) { ended <- err })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		n.streams.Cancel(s.ID)
		return errors.Join(ctx.Err(), <-ended)
	case <-time.After(fetchLostTimeout):
		n.streams.Cancel(s.ID)
		return errors.Join(errors.New("node: streaming the lost data took too long"), <-ended)
	}
}

// fetchLostTimeout bounds the stream from one node in fetchStates.
const fetchLostTimeout = 10 * time.Minute

// netStreams returns the streams to and from this node in the form of the control protocol.
func (n *Node) netStreams() []control.Stream {
	out := []control.Stream{}
	for _, p := range n.streams.Sessions() {
		s := control.Stream{What: fmt.Sprintf("%s, %v: %s", n.schema().NameOf(p.Table), p.Range, p.State),
			Done: p.Bytes, Total: p.Total}
		if m := n.cluster.Metadata().Topology.Node(p.Source); m != nil {
			s.Peer = m.Internode.Addr().String()
		}
		out = append(out, s)
	}
	topology := n.cluster.Metadata().Topology
	for x, sent := range n.streams.Sent() {
		out = append(out, control.Stream{Peer: topology.NameOf(x.Peer), Sending: true, Done: sent.Bytes,
			Total: sent.Total,
			What:  fmt.Sprintf("%s, %v", n.schema().NameOf(x.Table), x.Range)})
	}
	slices.SortFunc(out, func(a, b control.Stream) int {
		return cmp.Or(strings.Compare(a.Peer, b.Peer), strings.Compare(a.What, b.What))
	})
	return out
}
