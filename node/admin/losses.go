package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cqld/jobs"
	"cqld/rebalance"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/lost"
)

// losses restores the data that this node has lost in corrupt files and that a repair cannot compare. A lost range is a
// key rectangle of a file that storage took out of service: reads of it fail until Lift, so that missing rows are not
// answered as deleted ones.
type losses struct {
	catalog Catalog
	engine  *storage.Engine
	streams *rebalance.Streams
	log     *slog.Logger
}

// fetch restores what was lost of this node's local tables. The Paxos promises are streamed from all other members: at
// least one of them has any state that a quorum has. Other local data has no replicas and cannot be restored. A lost
// range is lifted only after its data is here, so an interrupted repair repeats it.
func (f losses) fetch(ctx context.Context, j *jobs.Job) error {
	for _, l := range f.engine.Lost() {
		t := f.catalog.schema().TableByStorage(l.Table)
		// The repair restores tables with replicas. Marks of ranges that this node does not replicate are lifted.
		if t != nil && t.Replication.Class != ring.Local {
			if err := f.liftForeign(t, &l); err != nil {
				return err
			}
			continue
		}
		if t != nil && t.Keyspace == "system" && t.Name == "paxos" {
			j.Progress(0, 0, "streaming Paxos state")
			if err := f.fetchFromAll(ctx, &l); err != nil {
				return err
			}
		}
		// By the number of the loss: one that is found while this one is restored stays.
		if err := f.engine.Lift(l.Table, l.Tokens, l.Number); err != nil {
			return err
		}
	}
	return nil
}

// liftForeign removes the loss marks of ranges that this node does not replicate. It restores nothing: the node need
// not have this data. Marks may cover more than this node replicates, because a file contains data of ranges that moved
// away.
func (f losses) liftForeign(t *schema.Table, l *lost.Range) error {
	// A range is divided by the replicas of its parts.
	for _, piece := range f.catalog.cluster.Metadata().Topology.Placement(t.Replication).Ranges(l.Tokens) {
		if piece.Replicas.Contains(f.catalog.cluster.Self()) {
			continue
		}
		if err := f.engine.Lift(l.Table, piece.Range, l.Number); err != nil {
			return err
		}
	}
	return nil
}

// fetchFromAll streams the states of a lost range from all other replicas, for each keyspace in the ranges that this
// node replicates. The sessions run one after the other, and the first error ends them.
func (f losses) fetchFromAll(ctx context.Context, l *lost.Range) error {
	m := f.catalog.cluster.Metadata()
	for _, name := range m.Schema.KeyspaceNames() {
		replication := m.Schema.Keyspace(name).Replication
		// A local keyspace has no other replica.
		if replication.Class == ring.Local {
			continue
		}
		for _, piece := range m.Topology.Placement(replication).Ranges(l.Tokens) {
			if !piece.Replicas.Contains(f.catalog.cluster.Self()) {
				continue
			}
			for _, member := range m.Topology.Nodes() {
				if member.ID == f.catalog.cluster.Self() || !piece.Replicas.Involves(member.ID) {
					continue
				}
				if err := f.fetchStates(ctx, rebalance.Session{
					// The id is unique, so that a session of an earlier attempt is not found.
					ID:    fmt.Sprintf("lost %d %v %d %d %s", l.Table, piece.Range, l.Since, member.ID, name),
					Epoch: m.Topology.Epoch(), Table: l.Table, Range: piece.Range, Source: member.ID,
					// Restore: this node votes already, so decided states of other replicas are left out
					// (rebalance.Session).
					Keyspaces: []string{name}, Restore: true,
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fetchStates runs a session and waits for it. The session is canceled if the job ends, and then the error of the
// session is awaited. The session has ended when it returns.
func (f losses) fetchStates(ctx context.Context, s rebalance.Session) error {
	// A buffer of one, so that the session can end after the wait.
	ended := make(chan error, 1)
	f.streams.Start(s, nil, func(err error) { ended <- err })
	select {
	case err := <-ended:
		return err
	// The session ends with an error of its own, which is part of the result.
	case <-ctx.Done():
		f.streams.Cancel(s.ID)
		return errors.Join(ctx.Err(), <-ended)
	case <-time.After(fetchLostTimeout):
		f.streams.Cancel(s.ID)
		return errors.Join(errors.New("node: streaming the lost data took too long"), <-ended)
	}
}

// fetchLostTimeout bounds the stream from one node in fetchStates.
const fetchLostTimeout = 10 * time.Minute
