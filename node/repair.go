package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/node/control"
	"cqld/rebalance"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// opRepair makes the replicas of tables equal. First of all, what lies in corrupt files is taken out of
// service, so that it comes back from the other replicas.
func (n *Node) opRepair(ctx context.Context, a control.RepairArgs, report control.Report) (control.RepairResult, error) {
	var out control.RepairResult
	lost, err := n.engine.Quarantine()
	if err != nil {
		return out, err
	}
	for _, l := range lost {
		n.log.Warn("corrupt file removed", "table", n.schema().NameOf(l.Table), "tokens", l.Tokens.String(), "file", l.Path)
	}
	jobs, err := n.repairJobs(&a)
	if err != nil {
		return out, err
	}
	if err := n.fetchLost(ctx, report); err != nil {
		return out, err
	}
	for i, job := range jobs {
		report(control.Progress{What: "repairing " + job.name, Total: int64(len(jobs)), Done: int64(i)})
		r, err := n.repairOne(ctx, job.Job)
		if n.dropped(job.Table, err) {
			out.LeftOut = append(out.LeftOut, job.name)
			continue
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", job.name, err)
		}
		out.Ranges += r.RangesDone
		out.Different += r.Differing
		out.Rows += r.Rows
		out.Bytes += r.Bytes
		out.Skipped += r.Skipped
		out.Moving += r.Moving
		out.Forgotten += r.Forgotten
		out.Unpurged += r.Unpurged
	}
	for _, l := range n.engine.Lost() {
		if n.schema().TableByStorage(l.Table) != nil {
			return out, &control.Error{Code: control.Failed, Message: fmt.Sprintf(
				"tokens %v of table %s were lost in %s and are not repaired yet: repair again when all their replicas are up", l.Tokens, n.schema().NameOf(l.Table), l.Path)}
		}
	}
	return out, nil
}

func (n *Node) schema() *schema.Schema { return n.cluster.Metadata().Schema }

// namedJob is a job and its table's name, as it was at the beginning.
type namedJob struct {
	repair.Job
	name string
}

// dropped says whether an operation failed because its table is no more.
func (n *Node) dropped(id schema.StorageID, err error) bool {
	return err != nil && n.schema().Dropped(id)
}

// repairJobs is what is to be repaired: the ring, of some tables, or only what was lost here.
func (n *Node) repairJobs(a *control.RepairArgs) (jobs []namedJob, err error) {
	tables, err := n.tablesOf(a.TablesArgs)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Replication.Class == ring.Local {
			continue
		}
		job := repair.Job{Table: t.StorageID, Range: ring.FullRange(), SkipDown: true}
		if !a.Corrupted {
			jobs = append(jobs, namedJob{job, t.Keyspace + "." + t.Name})
			continue
		}
		for _, l := range n.engine.Lost() {
			if l.Table == t.StorageID {
				job.Range = l.Tokens
				jobs = append(jobs, namedJob{job, t.Keyspace + "." + t.Name})
			}
		}
	}
	return jobs, nil
}

// repairOne repairs and waits.
func (n *Node) repairOne(ctx context.Context, job repair.Job) (repair.Report, error) {
	type outcome struct {
		report repair.Report
		err    error
	}
	ended := make(chan outcome, 1)
	j := n.repairer.Start(job, nil, func(r repair.Report, err error) { ended <- outcome{r, err} })
	select {
	case o := <-ended:
		return o.report, o.err
	case <-ctx.Done():
	case <-n.stopping:
	}
	j.Cancel()
	o := <-ended
	return o.report, o.err
}

// fetchLost brings back what was lost of this node's local tables. The promises of Paxos come from all
// other members: whatever a quorum knows, one of them does. The rest is nobody else's, and gone.
func (n *Node) fetchLost(ctx context.Context, report control.Report) error {
	for _, l := range n.engine.Lost() {
		t := n.schema().TableByStorage(l.Table)
		if t != nil && t.Replication.Class != ring.Local {
			if err := n.liftForeign(t, &l); err != nil {
				return err
			}
			continue
		}
		if t != nil && t.Keyspace == "system" && t.Name == "paxos" {
			report(control.Progress{What: "streaming Paxos state"})
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

// liftForeign lifts what was lost of ranges that this node does not hold anyway.
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

// fetchFromAll streams a lost range from all other members.
func (n *Node) fetchFromAll(ctx context.Context, l *storage.LostRange) error {
	m := n.cluster.Metadata()
	for _, member := range m.Topology.Nodes() {
		if member.ID == n.cluster.Self() {
			continue
		}
		pull := rebalance.Session{ID: fmt.Sprintf("lost %d %v %d %d", l.Table, l.Tokens, l.Since, member.ID),
			Epoch: m.Topology.Epoch(), Table: l.Table, Range: l.Tokens, Source: member.ID}
		ended := make(chan error, 1)
		n.streams.Start(pull, nil, func(err error) { ended <- err })
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			n.streams.Cancel(pull.ID)
			return errors.Join(ctx.Err(), <-ended)
		case <-time.After(fetchLostTimeout):
			n.streams.Cancel(pull.ID)
			return errors.Join(errors.New("node: streaming the lost data took too long"), <-ended)
		}
	}
	return nil
}

// fetchLostTimeout bounds one node's part of fetchFromAll.
const fetchLostTimeout = 10 * time.Minute

// netStreams are the streams to and from this node, as the control port shows them.
func (n *Node) netStreams() []control.Stream {
	out := []control.Stream{}
	for _, p := range n.streams.Sessions() {
		s := control.Stream{What: fmt.Sprintf("%s, %v: %s", n.schema().NameOf(p.Table), p.Range, p.State), Done: p.Bytes, Total: p.Total}
		if m := n.cluster.Metadata().Topology.Node(p.Source); m != nil {
			s.Peer = m.Internode.Addr().String()
		}
		out = append(out, s)
	}
	topology := n.cluster.Metadata().Topology
	for x, sent := range n.streams.Sent() {
		out = append(out, control.Stream{Peer: topology.NameOf(x.Peer), Sending: true, Done: sent.Bytes, Total: sent.Total,
			What: fmt.Sprintf("%s, %v", n.schema().NameOf(x.Table), x.Range)})
	}
	slices.SortFunc(out, func(a, b control.Stream) int {
		return cmp.Or(strings.Compare(a.Peer, b.Peer), strings.Compare(a.What, b.What))
	})
	return out
}
