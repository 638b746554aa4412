package jobs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// LocalStore stores keys of this node that are not replicated. *storage.Engine implements it. ScanLocal visits keys in
// ascending order, and the slices are valid during the call.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// A record has the local key "job/" and the number of the job (8 bytes, big-endian). Its value is recordVersion and a
// record in JSON.
//
//	"job/" | number, 8 bytes big-endian  ─▶  version, 1 byte | record as JSON
const (
	recordPrefix  = "job/"
	recordVersion = 1
)

// record is the stored form of a job. Times are in nanoseconds since 1970; 0 means none. External jobs have no record.
// A field may be added with omitempty, because unknown fields are ignored by older versions.
type record struct {
	Kind       Kind   `json:"kind"`
	Target     string `json:"target,omitempty"`
	State      State  `json:"state"`
	Phase      string `json:"phase,omitempty"`
	Done       int64  `json:"done,omitempty"`
	Total      int64  `json:"total,omitempty"`
	Unit       Unit   `json:"unit,omitempty"`
	Created    int64  `json:"created,omitempty"`
	Began      int64  `json:"began,omitempty"`
	Ended      int64  `json:"ended,omitempty"`
	Attempt    int    `json:"attempt"`
	Error      string `json:"error,omitempty"`
	Resumable  bool   `json:"resumable,omitempty"`
	Args       []byte `json:"args,omitempty"`
	Checkpoint []byte `json:"checkpoint,omitempty"`
}

func recordKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(recordPrefix), number)
}

// encode returns the record of a job. The caller holds the registry's mutex.
func (e *entry) encode() ([]byte, error) {
	s := &e.s
	// Texts are bounded by cut, and both byte slices by argsBytesMax, so the record is within recordBytesMax.
	b, err := json.Marshal(record{Kind: s.Kind, Target: s.Target, State: s.State, Phase: s.Phase, Done: s.Done,
		Total: s.Total, Unit: s.Unit,
		Created: nanos(s.Created), Began: nanos(s.Began), Ended: nanos(s.Ended), Attempt: s.Attempt, Error: s.Error,
		Resumable: s.Resumable, Args: s.Args, Checkpoint: e.checkpoint})
	// The version precedes the JSON, so that a later form is recognized before it is parsed.
	return append([]byte{recordVersion}, b...), err
}

func nanos(t time.Time) int64 {
	// UnixNano is undefined for the zero time.
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// errRecord is the error of a record that cannot be decoded.
var errRecord = errors.New("jobs: a stored job cannot be decoded")

// decodeRecord returns a stored job. An attempt that had not ended is interrupted. Its error wraps errRecord.
func decodeRecord(key, value []byte) (*entry, error) {
	// The size and the version are checked before decoding, so that a damaged or foreign value costs no memory.
	if len(key) != len(recordPrefix)+8 || len(value) == 0 || value[0] != recordVersion || len(value) > recordBytesMax {
		return nil, errRecord
	}
	number := binary.BigEndian.Uint64(key[len(recordPrefix):])
	var x record
	if err := json.Unmarshal(value[1:], &x); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	// JSON accepts values that no registry writes. The rest of the package relies on these bounds.
	if number == 0 || x.Attempt < 1 || x.Done < 0 || x.Total < 0 || x.State < Queued || x.State > Interrupted {
		return nil, errRecord
	}
	e := &entry{number: number, checkpoint: x.Checkpoint, s: Snapshot{
		ID: strconv.FormatUint(number, 10), Kind: x.Kind, Target: x.Target, State: x.State, Phase: x.Phase,
		Done: x.Done, Total: x.Total,
		Unit: x.Unit, Created: fromNanos(x.Created), Began: fromNanos(x.Began), Ended: fromNanos(x.Ended),
		Attempt: x.Attempt,
		Error:   x.Error, Resumable: x.Resumable, Args: x.Args,
	}}
	// The process that executed the attempt has ended, so the attempt is ended here.
	if !e.s.State.Ended() {
		e.s.State, e.s.Error = Interrupted, interruptedText
	}
	return e, nil
}

// load reads the stored jobs. A record that cannot be decoded is removed: it would never be shown.
func (r *Registry) load() error {
	if r.o.Store == nil {
		return nil
	}
	// Bad records are removed after the scan, because a store need not accept writes from its own callback.
	var bad [][]byte
	err := r.o.Store.ScanLocal([]byte(recordPrefix), func(key, value []byte) error {
		e, err := decodeRecord(key, value)
		if err != nil {
			r.o.OnError(err)
			bad = append(bad, slices.Clone(key))
			return nil
		}
		// No lock is needed: Open has not returned the registry, so this goroutine is the only user.
		r.mu.entries[e.s.ID] = e
		r.mu.ended = append(r.mu.ended, e)
		// Ids stay unique although records between were removed.
		r.mu.next = max(r.mu.next, e.number+1)
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range bad {
		r.report(r.o.Store.DeleteLocal(key, false))
	}
	// An interrupted job has no end, and sorts last.
	slices.SortStableFunc(r.mu.ended, func(a, b *entry) int {
		switch {
		case a.s.Ended.IsZero() == b.s.Ended.IsZero():
			return a.s.Ended.Compare(b.s.Ended)
		case a.s.Ended.IsZero():
			return 1
		}
		return -1
	})
	// Limits.Ended may be smaller than in the last process, or the interrupted jobs exceed it.
	r.mu.Lock()
	forgotten := r.forgetLocked()
	r.mu.Unlock()
	r.discard(forgotten)
	return nil
}

// store writes or removes the record of a job. Of two concurrent calls, one writes for both, so that an old record
// never replaces a newer one; the other returns before the record is written. With sync, the record survives a crash of
// the machine; progress is stored without.
func (r *Registry) store(e *entry, sync bool) {
	if r.o.Store == nil || e.s.External {
		return
	}
	r.mu.Lock()
	// The writing goroutine checks dirty after each write, and then encodes the newest state.
	if e.writing {
		e.dirty = true
		r.mu.Unlock()
		return
	}
	e.writing = true
	for {
		e.dirty = false
		forgotten := e.forgotten
		value, err := e.encode()
		// The disk is used without the lock, so that it does not delay List and Progress.
		r.mu.Unlock()
		switch {
		// The removal is not synced: if a crash brings the record back, the next load forgets the job.
		case forgotten:
			err = r.o.Store.DeleteLocal(recordKey(e.number), false)
		case err == nil:
			err = r.o.Store.SetLocal(recordKey(e.number), value, sync)
		}
		r.report(err)
		r.mu.Lock()
		if !e.dirty {
			break
		}
		sync = true // the other call may have been the end of the job
	}
	e.writing = false
	r.mu.Unlock()
}

func (r *Registry) report(err error) {
	if err != nil {
		r.o.OnError(fmt.Errorf("jobs: store a job: %w", err))
	}
}
