package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/repair"
	"cqld/ring"
)

// Repairs runs the repairs of operators, as jobs. The node that gets the command leads the repair; replicas only hash
// and send. Repairs of several operators are bounded by the registry and by the throughput of package repair.
type Repairs struct {
	catalog  Catalog
	members  members
	jobs     *Jobs
	losses   losses
	repairer *repair.Repairer
}

// Repair makes the replicas of tables equal, as a job. The result is the summary of this attempt; a job that is resumed
// later reports its own in the list of jobs.
func (r *Repairs) Repair(ctx context.Context, a control.RepairArgs, report control.Report) (control.RepairResult,
	error) {
	plan, err := r.plan(&a)
	if err != nil {
		return control.RepairResult{}, err
	}
	// With hosts, a range needs at least two replicas to be compared.
	if len(plan.Scope.Nodes) > 0 && r.repairer.Ranges(&plan) == 0 {
		return control.RepairResult{}, &control.Error{Code: control.Refused, Message: fmt.Sprintf(
			"no range of %s has more than one replica on %s", targetOf(a.TablesArgs), strings.Join(a.Hosts, ", "))}
	}
	// The channel has room for one result, so the job never waits for the command.
	result := make(chan repair.Summary, 1) // of the attempt
	err = r.jobs.start(ctx, jobs.Repair, repairTarget(&a), jobs.Ranges, a, r.work(a, result), report)
	if err != nil {
		return control.RepairResult{}, err
	}
	return control.RepairResult(<-result), nil
}

// work returns the work of a repair. Before the repair, corrupt files are taken out of service, so that their data is
// streamed from the other replicas; a restricted repair leaves these ranges lost. result, which may be nil, receives
// the figures of a successful repair. Every attempt quarantines again, because files may become corrupt meanwhile.
// Quarantine comes first because a corrupt file would fail the comparison of its range at every attempt.
func (r *Repairs) work(a control.RepairArgs, result chan<- repair.Summary) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		lost, err := r.losses.engine.Quarantine()
		if err != nil {
			return err
		}
		// Each lost range is logged: its data is missing until the repair has restored it.
		for _, l := range lost {
			r.losses.log.Warn("corrupt data removed", "table", r.catalog.schema().NameOf(l.Table), "tokens",
				l.Tokens.String(),
				"file", l.Path)
		}
		plan, err := r.plan(&a)
		if err != nil {
			return err
		}
		// A restricted repair may not have the replicas of a lost range.
		if !a.Restricted() {
			if err := r.losses.fetch(ctx, j); err != nil {
				return err
			}
		}
		// The repair itself is in package repair; the job waits for it.
		sum, err := r.run(ctx, j, plan)
		if err != nil {
			return err
		}
		// A range is still lost if the repair did not have all its replicas.
		for _, l := range r.losses.engine.Lost() {
			if !a.Restricted() && r.catalog.schema().TableByStorage(l.Table) != nil {
				return &control.Error{Code: control.Failed, Message: fmt.Sprintf(
					"tokens %v of table %s were lost in %s and are not repaired yet: repair again when all their "+
						"replicas are up", l.Tokens, r.catalog.schema().NameOf(l.Table), l.Path)}
			}
		}
		// The progress ends at its total, because some ranges are skipped.
		s, err := r.jobs.registry.Get(j.ID())
		if err != nil {
			return err
		}
		j.Progress(s.Total, s.Total, fmt.Sprintf("%d ranges compared, %d parts were different, %d rows sent, %d "+
			"ranges skipped",
			sum.Ranges, sum.Different, sum.Rows, sum.Skipped+sum.Moving))
		// A command that waits gets the figures; a resumed job has none to give.
		if result != nil {
			result <- sum
		}
		return nil
	}
}

// repairTarget describes for operators what a repair covers. The text is for the list of jobs and must not be long.
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

// scope returns the replicas that a repair covers. At most one of the three options may be set. Datacenters and Nodes
// are both empty if none is. The zero Scope means all replicas. Only an unrestricted repair counts for the purge of
// tombstones.
func (r *Repairs) scope(a *control.RepairArgs) (s repair.Scope, err error) {
	topology, chosen := r.catalog.cluster.Metadata().Topology, 0
	// Counting the options finds two of them at once.
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
	// A clone, because the arguments belong to the request.
	s.Datacenters = slices.Clone(a.Datacenters)
	if self := topology.Node(r.catalog.cluster.Self()); a.LocalDatacenter && self != nil {
		s.Datacenters = []string{self.Datacenter}
	}
	// A data center that does not exist would cover nothing.
	for _, name := range s.Datacenters {
		if err := knownDatacenter(topology, name); err != nil {
			return s, err
		}
	}
	for _, name := range a.Hosts {
		// The nodes are found by id, number or address.
		m := r.members.find(name)
		if m == nil {
			return s, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("node %s does not exist", name)}
		}
		s.Nodes = append(s.Nodes, m.ID)
	}
	return s, nil
}

// plan returns what a repair covers: the whole ring, some tables, or only the ranges that this node has lost. The
// targets are sorted by name, so that two repairs of the same tables are alike. Keep stores the positions of the
// comparison with the job, so a resumed repair continues; the short repairs of lost ranges do not need it.
func (r *Repairs) plan(a *control.RepairArgs) (plan repair.Plan, err error) {
	tables, err := r.catalog.Tables(a.TablesArgs)
	if err != nil {
		return plan, err
	}
	// SkipDown leaves replicas that are down, so a repair is not refused because of one.
	plan = repair.Plan{SkipDown: true, Keep: !a.Corrupted}
	if plan.Scope, err = r.scope(a); err != nil {
		return plan, err
	}
	// A repair of all tables includes the dropped ones that can be restored: a change of replication waits for it.
	if len(a.Tables) == 0 {
		tables = append(tables, r.catalog.retained(a.TablesArgs)...)
	}
	for _, t := range tables {
		// A local table has no replica to compare with.
		if t.Replication.Class == ring.Local {
			continue
		}
		target := repair.Target{Name: t.Keyspace + "." + t.Name, Table: t.StorageID, Range: ring.FullRange()}
		// A corrupted repair compares only the ranges that are lost.
		if !a.Corrupted {
			plan.Targets = append(plan.Targets, target)
			continue
		}
		for _, l := range r.losses.engine.Lost() {
			if l.Table == t.StorageID {
				target.Range = l.Tokens
				plan.Targets = append(plan.Targets, target)
			}
		}
	}
	// Only dropped tables may have the name of another one.
	byName := func(a, b repair.Target) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(plan.Targets, byName)
	// Ranges of a corrupted repair may differ, so duplicates are kept.
	if plan.Keep { // an operator may name a table twice
		plan.Targets = slices.CompactFunc(plan.Targets, func(a, b repair.Target) bool { return a.Table == b.Table })
	}
	return plan, nil
}

// run runs a repair and waits for it. The channel has room for one outcome, so the repairer never waits for the job.
// The repair has ended when it returns, also after a cancellation.
func (r *Repairs) run(ctx context.Context, j *jobs.Job, plan repair.Plan) (repair.Summary, error) {
	type outcome struct {
		sum repair.Summary
		err error
	}
	ended := make(chan outcome, 1)
	t := r.repairer.StartTables(j, plan, func(sum repair.Summary, err error) { ended <- outcome{sum, err} })
	// After the end of the context, the repair is canceled and still awaited.
	select {
	case o := <-ended:
		return o.sum, o.err
	case <-ctx.Done():
	}
	t.Cancel()
	o := <-ended
	return o.sum, o.err
}
