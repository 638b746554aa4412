package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/rebalance"
	"cqld/ring"
	"cqld/schema"
)

// Movement streams and drops the data of this node, as jobs. Both move data of the ring, and both are shown as jobs.
type Movement struct {
	catalog   Catalog
	jobs      *Jobs
	drops     *rebalance.Drops
	movements *rebalance.Movements
}

// Cleanup drops the data of ranges that this node no longer replicates, as a job. It applies the same rule as the
// automatic cleanup after ring changes: current replicas of a range must confirm that they have its data
// (rebalance.Drops), so a cleanup that is run too early drops nothing, unlike in Cassandra. Its progress is counted in
// ranges.
func (m *Movement) Cleanup(ctx context.Context, a control.TablesArgs, report control.Report) (none control.None,
	err error) {
	// The tables are named, so that an operator learns of a typing error at once.
	if _, err := m.catalog.Tables(a); err != nil {
		return none, err
	}
	return none, m.jobs.start(ctx, jobs.Cleanup, targetOf(a), jobs.Ranges, a, m.cleanupWork(a), report)
}

// cleanupWork returns the work of a cleanup. A new attempt starts from the beginning.
func (m *Movement) cleanupWork(a control.TablesArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		tables, err := m.catalog.Tables(a)
		if err != nil {
			return err
		}
		var ids []schema.StorageID
		// No tables means every table, so nil is passed on.
		if len(a.Tables) > 0 {
			for _, t := range tables {
				ids = append(ids, t.StorageID)
			}
		}
		// A buffer of one, so that the cleanup can end after the wait.
		done := make(chan error, 1)
		j.Progress(0, 0, "asking the replicas of the ranges")
		// The cleanup runs on its own, and the job waits for it.
		cancel := m.drops.Cleanup(a.Keyspace, ids,
			func(done, all int) { j.Progress(int64(done), int64(all), "dropping ranges") },
			func(err error) { done <- err })
		select {
		case err = <-done:
		// A cancelled cleanup ends soon, and its result is awaited so that it does not outlive the job.
		case <-ctx.Done():
			cancel()
			err = <-done
		}
		return err
	}
}

// Rebuild streams this node's data from the other replicas, as a job. Without a data center, any replica is a source.
// Rows are merged into the data of this node, so a rebuild may be repeated; it removes nothing.
func (m *Movement) Rebuild(ctx context.Context, a control.RebuildArgs, report control.Report) (none control.None,
	err error) {
	topology := m.catalog.cluster.Metadata().Topology
	if _, err := m.catalog.Tables(control.TablesArgs{Keyspace: a.Keyspace}); err != nil {
		return none, err
	}
	target := targetOf(control.TablesArgs{Keyspace: a.Keyspace})
	if a.Datacenter != "" {
		// The data center is part of the target, so that the job shows it.
		target += " from " + a.Datacenter
		if err := knownDatacenter(topology, a.Datacenter); err != nil {
			return none, err
		}
	}
	return none, m.jobs.start(ctx, jobs.Rebuild, target, jobs.Ranges, a, m.rebuildWork(a), report)
}

// knownDatacenter returns an error if no member is in the data center. The message lists the data centers, because
// their names are the operator's.
func knownDatacenter(t *ring.Topology, name string) error {
	if slices.Contains(t.Datacenters(), name) {
		return nil
	}
	return &control.Error{Code: control.Invalid, Message: fmt.Sprintf(
		"data center %s does not exist; the data centers are %s", name, strings.Join(t.Datacenters(), ", "))}
}

// rebuildWork returns the work of a rebuild. A rebuild that is resumed continues where it was: its positions are stored
// under its name. The job's id is the name of the positions, and forget removes them with the job.
func (m *Movement) rebuildWork(a control.RebuildArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		// As in cleanupWork, the movement runs on its own.
		done := make(chan error, 1)
		o := rebalance.RebuildOptions{Name: j.ID(), Keyspace: a.Keyspace, Datacenter: a.Datacenter,
			Progress: func(done, all int) { j.Progress(int64(done), int64(all), "streaming") }}
		cancel := m.movements.Rebuild(o, func(err error) { done <- err })
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			cancel()
			return <-done
		}
	}
}
