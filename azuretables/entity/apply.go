package entity

import (
	"errors"
	"iter"
	"slices"
	"time"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/paxos"
	"cqld/request"
	"cqld/row"
)

// keyBytesMax is the maximum length of a key in storage. It is the limit of a partition key in Cassandra, 64 KiB minus
// one byte.
const keyBytesMax = 1<<16 - 1

// Apply implements Service. It retries a change that was certainly not made because of contention, until
// Timeouts.Change. If the outcome is unknown, it determines it (outcome). A result means that the change was applied
// at the consistency of the request. An error of known outcome, such as a refused condition, means that it was not; a
// timeout means that the outcome is unknown.
//
// The attempts:
//
//	prepare ─▶ CAS ─┬─ applied ──────────────────▶ timestamps
//	                ├─ condition refused ────────▶ Failed
//	                ├─ contention, no proposal ──▶ pause, again
//	                └─ proposed, no response ────▶ outcome: applied, again, or unknown
func (s *Store) Apply(r *request.Request, account, table string, ops []Operation) (timestamps []int64, err error) {
	if len(ops) == 0 {
		return nil, nil
	}
	p, err := s.planFor(r, account, table, ops)
	if err != nil {
		return nil, err
	}
	// The transaction is pooled, because a change would otherwise allocate a few lists.
	t := s.transactions.Get().(*transaction)
	if err := t.prepare(r, p, ops); err != nil {
		s.recycle(t)
		return nil, err
	}
	// The request's own deadline may be earlier.
	deadline := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	// Pauses double, so that contending writers spread.
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		err := t.attempt(r)
		// A refused condition is not an error of the round, because nothing was proposed.
		switch {
		case err == nil && t.failed != nil:
			err = t.failed
			s.recycle(t)
			return nil, err
		case err == nil:
			timestamps := make([]int64, len(ops))
			// changes are in clustering order, the result in the order of ops.
			for i := range t.changes {
				timestamps[t.changes[i].index] = t.changes[i].timestamp * ticksPerMicro
			}
			s.recycle(t)
			return timestamps, nil
		}
		// From here on t is not reused, because a replica or proposer may still read it.
		next, sure := t.after(r, err, deadline)
		// An unknown outcome must not be retried: an insert would fail because of its own first attempt.
		if !sure || s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return nil, err
		}
		// The change was made although its response was lost.
		if next == nil {
			return t.timestamps(), nil
		}
		s.o.Executor.Pause(pause) // an attempt may have failed immediately, as on a full disk
		if err := next.prepare(r, p, ops); err != nil {
			return nil, err
		}
		// The failed transaction is left to the garbage collector.
		t = next
	}
}

// ticksPerMicro is the number of ticks in a microsecond, the resolution of a write timestamp. Ticks are the service's,
// microseconds are the unit of Cassandra's timestamps.
const ticksPerMicro = 10

// attempt proposes the change once. The stamps of the attempt are collected by update, which may run more than once in
// it. t.failed is set if a condition was refused.
func (t *transaction) attempt(r *request.Request) error {
	t.stamps = t.stamps[:0]
	_, call, err := t.s.o.Executor.CAS(r, &t.cas.req)
	if err != nil {
		return known(err)
	}
	// The page is not needed, because update has read it.
	call.Release()
	return nil
}

// recycle returns t to the pool. Nothing else may refer to it. It must not be called after an error of the coordinator.
func (s *Store) recycle(t *transaction) {
	t.release()
	s.transactions.Put(t)
}

// timestamps returns the new Timestamps in the order of ops.
func (t *transaction) timestamps() []int64 {
	out := make([]int64, len(t.changes))
	for i := range t.changes {
		out[t.changes[i].index] = t.changes[i].timestamp * ticksPerMicro
	}
	return out
}

// after determines how to continue after a failed attempt. sure reports that its outcome is known; next is then the
// transaction for the next attempt, or nil if the change was made. Other errors, such as too few replicas, are returned
// to the client with an unsure outcome. The error of the attempt stays the caller's result if sure is false.
func (t *transaction) after(r *request.Request, err error, deadline time.Duration) (next *transaction, sure bool) {
	var timeout *coordinator.WriteTimeout
	var unknown *coordinator.CASUnknown
	switch {
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		// Contention was lost before a proposal, so t's memory may still be in use, but no replica has the change.
		return newTransaction(t.s), true // no proposal was made that could be decided
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteSimple, errors.As(err, &unknown):
		// A proposal was made. It may have been decided or not.
		return t.outcome(r, deadline)
	}
	return nil, false
}

// outcome determines the result of a change whose response was lost. A serial read completes or invalidates any round
// in progress on the partition. After it, data with one of the change's timestamps, which are unique, proves that the
// change was made; if all data is older than these timestamps, it was not made. Otherwise it may have been made and
// overwritten, and the outcome stays unknown. Without a timestamp of this change, nothing can be proved. A page that
// ends early proves as much, if it has a row: the change writes all of its rows at the same time, and the first one is
// in the page.
//
// It relies on timestamps that are unique in the cluster: a ballot contains the node.
func (t *transaction) outcome(r *request.Request, deadline time.Duration) (next *transaction, sure bool) {
	if len(t.stamps) == 0 {
		return nil, false
	}
	page, ok := t.s.settled(r, t.cas.cmd, deadline)
	if !ok {
		return nil, false
	}
	newest, made := int64(row.NoTimestamp), int64(row.NoTimestamp)
	// The page contains the rows of the operations only.
	t.reader.Reset(page)
	for stamp := range t.timestampsOf() {
		newest = max(newest, stamp)
		// The timestamps are unique, so no other change has written this one.
		if slices.Contains(t.stamps, stamp) {
			made = stamp
		}
	}
	switch {
	case t.reader.Err() != nil:
		return nil, false
	case made != row.NoTimestamp:
		// A round that was retried may have used several stamps; the one that was found is the result.
		for i := range t.changes {
			t.changes[i].timestamp = made
		}
		return nil, true
	// Every row that was read is older, including the tombstones, so no proposal of this change was applied, nor will
	// be: the serial read has invalidated it.
	case newest < slices.Min(t.stamps) && (newest != row.NoTimestamp || !t.reader.More()):
		return newTransaction(t.s), true
	}
	// A newer change hides whether this one was made.
	return nil, false
}

// Pauses between attempts under contention: about the duration of a Paxos round.
const (
	pauseFirst = 5 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

// settled reads the partition after completing any round in progress on it. ok is false if the time did not suffice. A
// read at the serial consistency is a round of Paxos that proposes nothing. cmd must not be changed meanwhile.
func (s *Store) settled(r *request.Request, cmd row.ReadCommand, deadline time.Duration) (page []byte, ok bool) {
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		call, err := s.o.Executor.Read(r, &coordinator.ReadRequest{Command: &cmd, Consistency: r.SerialConsistency,
			Timeout: s.o.Timeouts.Write, Contention: s.o.Timeouts.CAS})
		if err == nil {
			page := call.Page()
			r.Cost.CountPage(page, cmd.Now)
			// The page outlives the call, because the caller reads it.
			call.Keep()
			call.Release()
			return page, true
		}
		if s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return nil, false
		}
		// The read may fail because of the same contention.
		s.o.Executor.Pause(pause)
	}
}

// timestampsOf returns the write timestamps of all data in the page, including deletions. The page must be in reader. A
// row without liveness or deletion yields row.NoTimestamp. The order has no meaning.
func (t *transaction) timestampsOf() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		var x row.Row
		for t.reader.NextPartition() {
			// The partition and its ranges may be deleted as well, which hides older data.
			all := []int64{t.reader.Header.Deletion.Timestamp}
			for _, d := range t.reader.RangeTombstones {
				all = append(all, d.Deletion.Timestamp)
			}
			for t.reader.NextRow(&x) {
				all = append(all, x.Liveness.Timestamp, x.Deletion.Timestamp)
				for i := range x.Cells {
					all = append(all, x.Cells[i].Timestamp)
				}
			}
			for _, stamp := range all {
				if !yield(stamp) {
					return
				}
			}
		}
	}
}

// DeletePartition implements Service. It is a CAS, like every change of entities, so that it is ordered with them. It
// has no condition. It does not count the entities, because it does not read them.
func (s *Store) DeletePartition(r *request.Request, account, table, partitionKey string) error {
	p, err := s.plan(account, table)
	if err != nil {
		return err
	}
	if err := s.permits(r, auth.Modify, p); err != nil {
		return err
	}
	// Counters cannot be deleted and written again safely.
	if p.counters {
		return errCounters(p)
	}
	if err := checkKeys(partitionKey, ""); err != nil {
		return err
	}
	deadline := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	// Without slices, the read returns only the header.
	cmd := row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey([]byte(partitionKey)), Now: s.now()}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		stamps, err := s.deletePartition(r, cmd)
		var timeout *coordinator.WriteTimeout
		var unknown *coordinator.CASUnknown
		switch {
		// The loop tries again: no proposal was made that could be decided.
		case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		case errors.As(err, &timeout), errors.As(err, &unknown):
			// A second deletion would also delete what other clients have inserted since.
			deleted, ok := s.deletedAt(r, cmd, deadline)
			if !ok {
				return err
			}
			// A deletion with one of our timestamps, or a newer one, has removed what this one was to remove.
			if len(stamps) > 0 && deleted >= slices.Min(stamps) {
				return nil
			}
			// From here on, deleted is older than every stamp, so another attempt is safe.
		default:
			return err
		}
		// Success has returned above, so err is the last failure.
		if s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return err
		}
		s.o.Executor.Pause(pause)
	}
}

// deletedAt returns the timestamp of the partition's last deletion, after completing any round in progress.
// row.NoTimestamp means that there is none. It is read at the serial consistency.
func (s *Store) deletedAt(r *request.Request, cmd row.ReadCommand, deadline time.Duration) (timestamp int64, ok bool) {
	page, ok := s.settled(r, cmd, deadline)
	if !ok {
		return 0, false
	}
	var reader row.PageReader
	timestamp = row.NoTimestamp
	for reader.Reset(page); reader.NextPartition(); {
		timestamp = max(timestamp, reader.Header.Deletion.Timestamp)
	}
	return timestamp, reader.Err() == nil
}

// deletePartition makes one attempt; stamps are the timestamps with which it proposed the deletion. The CAS reads no
// row. Its update always proposes. stamps may have several elements, because Paxos may repeat the update with a newer
// ballot.
func (s *Store) deletePartition(r *request.Request, cmd row.ReadCommand) (stamps []int64, err error) {
	req := &paxos.CASRequest{Command: &cmd, Serial: r.SerialConsistency, Consistency: r.Consistency,
		Contention: s.o.Timeouts.CAS, Timeout: s.o.Timeouts.Write}
	req.Update = func(_ []byte, timestamp int64) (*row.Mutation, bool, error) {
		// A stamp is kept even if its proposal is never decided.
		stamps = append(stamps, timestamp)
		m := &row.Mutation{Table: cmd.Table, Key: cmd.Key}
		// A deletion of the header is a deletion of the partition.
		header := row.NewRow()
		header.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: cmd.Now}
		m.AddHeader(header)
		return m, true, nil
	}
	_, call, err := s.o.Executor.CAS(r, req)
	if err != nil {
		return stamps, known(err)
	}
	call.Release()
	return stamps, nil
}

// errCounters returns the error of a change in a table with counter columns. Cassandra does not mix counters with other
// columns either.
func errCounters(p *plan) error {
	return invalid("Table " + p.spelled + " has counters, which can only be changed by CQL.")
}

// checkKeys refuses keys that storage cannot have. The service's own limit was checked by odata. The row key is a
// clustering, whose bound is the same.
func checkKeys(partitionKey, rowKey string) error {
	if len(partitionKey) > keyBytesMax || len(rowKey) > keyBytesMax {
		return odata.Of(odata.KeyValueTooLarge)
	}
	return nil
}
