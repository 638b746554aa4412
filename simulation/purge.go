package simulation

import (
	"time"

	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
)

// purges repairs the ranges of a workload's partitions while clients change them conditionally, either the whole table
// or one partition, at any node: Paxos state that is older than PaxosMargin is purged. Acceptors forget decisions up to
// the low bound that a repair has raised, so a proposer that missed a decision must learn it from the rows.
func (w *clients) purges(table *schema.Table, partition func(*kernel.Stream) row.PartitionKey) {
	if w.c.options.PaxosMargin != 0 {
		w.purge(kernel.NewStream(w.c.options.Seed, "purges "+w.name), table, partition)
	}
}

// purge schedules the next repair.
func (w *clients) purge(r *kernel.Stream, table *schema.Table, partition func(*kernel.Stream) row.PartitionKey) {
	w.c.later(r.Between(50*time.Millisecond, 800*time.Millisecond), "purge", func() {
		job := repair.Job{Table: table.StorageID, Range: ring.FullRange(), SkipDown: true}
		if r.Chance(800) {
			token := partition(r).Token
			// Start is exclusive: the range has this token alone.
			job.Range = ring.Range{Start: token - 1, End: token}
		}
		if l := w.c.any(r).process; l.serves() {
			l.Do(func() {
				l.repairer.Start(job, nil, func(report repair.Report, _ error) {
					w.c.counted["states forgotten"] += report.Forgotten
				})
			})
		}
		// The next one is scheduled whether or not this one could start; it ends when the cluster is healed (later).
		w.purge(r, table, partition)
	})
}
