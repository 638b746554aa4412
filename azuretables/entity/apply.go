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

// ttlMax is twenty years in seconds, the longest that CQL lets anything live before it expires.
const ttlMax = 20 * 365 * 24 * 60 * 60

// keyBytesMax is the longest key that storage takes.
const keyBytesMax = 1<<16 - 1

// Apply implements Service. A change that certainly did not happen because others were ahead is tried
// again as long as Timeouts.Change allows; one whose outcome was lost is looked for (outcome).
func (s *Store) Apply(r *request.Request, account, table string, ops []Operation) (timestamps []int64, err error) {
	if len(ops) == 0 {
		return nil, nil
	}
	p, err := s.planFor(r, account, table, ops)
	if err != nil {
		return nil, err
	}
	t := s.transactions.Get().(*transaction)
	if err := t.prepare(r, p, ops); err != nil {
		s.recycle(t)
		return nil, err
	}
	deadline := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		err := t.attempt(r)
		switch {
		case err == nil && t.failed != nil:
			err = t.failed
			s.recycle(t)
			return nil, err
		case err == nil:
			timestamps := make([]int64, len(ops))
			for i := range t.changes {
				timestamps[t.changes[i].index] = t.changes[i].timestamp * ticksPerMicro
			}
			s.recycle(t)
			return timestamps, nil
		}
		// From here on t is left to the garbage collector: somebody may still look at it.
		next, sure := t.after(r, err, deadline)
		if !sure || s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return nil, err
		}
		if next == nil {
			return t.timestamps(), nil
		}
		s.o.Executor.Pause(pause) // an attempt may have failed at once, as on a full disk
		if err := next.prepare(r, p, ops); err != nil {
			return nil, err
		}
		t = next
	}
}

// ticksPerMicro is how many ticks a write timestamp cannot tell apart.
const ticksPerMicro = 10

// attempt makes the change once.
func (t *transaction) attempt(r *request.Request) error {
	t.stamps = t.stamps[:0]
	_, call, err := t.s.o.Executor.CAS(r, &t.asked.req)
	if err != nil {
		return known(err)
	}
	call.Release()
	return nil
}

// recycle keeps t for another transaction. Nobody else may know it.
func (s *Store) recycle(t *transaction) {
	t.release()
	s.transactions.Put(t)
}

func (t *transaction) timestamps() []int64 {
	out := make([]int64, len(t.changes))
	for i := range t.changes {
		out[t.changes[i].index] = t.changes[i].timestamp * ticksPerMicro
	}
	return out
}

// after says what follows a failed attempt: sure says that its outcome is known, and then next is the
// transaction to try with, or nil when the change was made.
func (t *transaction) after(r *request.Request, err error, deadline time.Duration) (next *transaction, sure bool) {
	var timeout *coordinator.WriteTimeout
	var unknown *coordinator.CASUnknown
	switch {
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		return newTransaction(t.s), true // nothing was proposed that could be decided
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteSimple, errors.As(err, &unknown):
		return t.outcome(r, deadline)
	}
	return nil, false
}

// outcome finds out what became of a change whose answer was lost. A serial read finishes, or makes void,
// whatever is in progress on the partition. Then anything with one of the change's timestamps, which nobody
// else has, says that it was made; and when nothing is newer than them, it was not. It may also have been
// made and overwritten: nobody can tell.
func (t *transaction) outcome(r *request.Request, deadline time.Duration) (next *transaction, sure bool) {
	if len(t.stamps) == 0 {
		return nil, false
	}
	page, ok := t.s.settled(r, t.asked.cmd, deadline)
	if !ok {
		return nil, false
	}
	newest, made := int64(row.NoTimestamp), int64(row.NoTimestamp)
	t.reader.Reset(page)
	for stamp := range t.timestampsOf() {
		newest = max(newest, stamp)
		if slices.Contains(t.stamps, stamp) {
			made = stamp
		}
	}
	switch {
	case t.reader.Err() != nil:
		return nil, false
	case made != row.NoTimestamp:
		for i := range t.changes {
			t.changes[i].timestamp = made
		}
		return nil, true
	case newest < slices.Min(t.stamps):
		return newTransaction(t.s), true
	}
	return nil, false
}

// Pauses between attempts that others are ahead of: about as long as their rounds take.
const (
	pauseFirst = 5 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

// settled reads after finishing what is in progress on the partition; false when there was no time for it.
func (s *Store) settled(r *request.Request, cmd row.ReadCommand, deadline time.Duration) (page []byte, ok bool) {
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		call, err := s.o.Executor.Read(r, &coordinator.ReadRequest{Command: &cmd, Consistency: r.SerialConsistency, Timeout: s.o.Timeouts.Write, Contention: s.o.Timeouts.CAS})
		if err == nil {
			page := call.Page()
			r.Cost.CountPage(page, cmd.Now)
			call.Keep()
			call.Release()
			return page, true
		}
		if s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return nil, false
		}
		s.o.Executor.Pause(pause)
	}
}

// timestampsOf are the write timestamps of all that is in the page, deletions included.
func (t *transaction) timestampsOf() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		var x row.Row
		for t.reader.NextPartition() {
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

// DeletePartition implements Service.
func (s *Store) DeletePartition(r *request.Request, account, table, partitionKey string) error {
	p, err := s.plan(account, table)
	if err != nil {
		return err
	}
	if err := s.permits(r, auth.Modify, p); err != nil {
		return err
	}
	if p.counters {
		return errCounters(p)
	}
	if err := checkKeys(partitionKey, ""); err != nil {
		return err
	}
	deadline := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	// No slices: only the header is read.
	cmd := row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey([]byte(partitionKey)), Now: s.now()}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		stamps, err := s.deletePartition(r, cmd)
		var timeout *coordinator.WriteTimeout
		var unknown *coordinator.CASUnknown
		switch {
		case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		case errors.As(err, &timeout), errors.As(err, &unknown):
			// Doing it twice would take away what others have inserted meanwhile.
			deleted, ok := s.deletedAt(r, cmd, deadline)
			if !ok {
				return err
			}
			if len(stamps) > 0 && deleted >= slices.Min(stamps) {
				return nil
			}
		default:
			return err
		}
		if s.o.Clock.Monotonic() >= deadline || r.Context.Err() != nil {
			return err
		}
		s.o.Executor.Pause(pause)
	}
}

// deletedAt is when the partition was deleted last, and certainly so.
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

// deletePartition tries it once; stamps are those that the deletion was proposed with.
func (s *Store) deletePartition(r *request.Request, cmd row.ReadCommand) (stamps []int64, err error) {
	req := &paxos.CASRequest{Command: &cmd, Serial: r.SerialConsistency, Consistency: r.Consistency,
		Contention: s.o.Timeouts.CAS, Timeout: s.o.Timeouts.Write}
	req.Update = func(_ []byte, timestamp int64) (*row.Mutation, bool, error) {
		stamps = append(stamps, timestamp)
		m := &row.Mutation{Table: cmd.Table, Key: cmd.Key}
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

func errCounters(p *plan) error {
	return invalid("Table " + p.spelled + " has counters, which can only be changed by CQL.")
}

func checkKeys(partitionKey, rowKey string) error {
	if len(partitionKey) > keyBytesMax || len(rowKey) > keyBytesMax {
		return odata.Of(odata.KeyValueTooLarge)
	}
	return nil
}
