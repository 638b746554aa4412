package request

import (
	"errors"
	"slices"
	"testing"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
)

// onePage returns a page of a partition with a live row and a deleted one.
func onePage() []byte {
	w := row.NewPageWriter(nil)
	w.Partition(row.NewPartitionKey([]byte("k")), row.NewRow(), nil)
	live, dead := row.NewRow(), row.NewRow()
	live.Clustering, live.Liveness.Timestamp = []byte{1}, 5
	dead.Clustering, dead.Deletion = []byte{2}, row.Deletion{Timestamp: 5, LocalTime: 5}
	w.Row(live)
	w.Row(dead)
	w.EndPartition()
	return w.Finish(false)
}

// askingProposer calls Update twice before it responds, and once afterwards.
type askingProposer struct {
	scripted
	page  []byte
	err   error
	asked *paxos.CASRequest
	late  chan struct{} // closed after the last call
}

func (p *askingProposer) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	p.asked = req
	ask := func() { _, _, _ = req.Update(p.page, 1) }
	ask()
	ask()
	done(false, p.page, p.err)
	go func() {
		defer close(p.late)
		ask()
	}()
}

// TestCostOfConditionalChangeCountsAttempts checks that each attempt counts, even if the change fails. An
// attempt after the response, on another goroutine, does not count.
func TestCostOfConditionalChangeCountsAttempts(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no quorum")} {
		for _, measured := range []bool{false, true} {
			p := &askingProposer{page: onePage(), err: failure, late: make(chan struct{})}
			e, _ := newExecutor(&p.scripted, func(o *Options) { o.Proposer = p })
			r := &Request{Context: t.Context()}
			if measured {
				r.Measure()
			}
			updates := 0
			req := &paxos.CASRequest{Command: &row.ReadCommand{},
				Update: func([]byte, int64) (*row.Mutation, bool, error) {
					updates++
					return nil, false, nil
				}}
			_, call, err := e.CAS(r, req)
			cost := r.Cost
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
			if call != nil {
				call.Release()
			}
			<-p.late
			want := Cost{}
			if measured {
				want = Cost{Rows: 2, Tombstones: 2, Partitions: 2, Commands: 2, Bytes: 2 * len(p.page)}
			}
			// The late attempt may run before the cost is read, and then counts.
			if late := (Cost{Rows: 3, Tombstones: 3, Partitions: 3, Commands: 3,
				Bytes: 3 * len(p.page)}); cost != want && (!measured || cost != late) {
				t.Errorf("measured %t, failure %v: cost %+v, want %+v", measured, failure, cost, want)
			}
			if updates != 3 {
				t.Errorf("the change is made %d times", updates)
			}
			if !measured && p.asked != req {
				t.Error("the request is copied although nothing is measured")
			}
		}
	}
}

// contacting is a coordinator that contacts replicas 3 and 1.
type contacting struct{ scripted }

func (s *contacting) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	coordinator.AddContact(req.Trace, 3)
	coordinator.AddContact(req.Trace, 1)
	coordinator.AddContact(req.Trace, 3)
	s.scripted.Read(req, done)
}

func TestReportedReplicasWereContacted(t *testing.T) {
	s := &contacting{}
	e := New(Options{Coordinator: s, Clock: &manualClock{}})
	for _, measured := range []bool{false, true} {
		r := &Request{Context: t.Context()}
		var want []ring.NodeID
		if measured {
			r.Measure()
			want = []ring.NodeID{1, 3}
		}
		for range 2 {
			c, err := e.Read(r, &coordinator.ReadRequest{Command: &row.ReadCommand{}})
			if err != nil {
				t.Fatal(err)
			}
			c.Release()
		}
		if got := r.Replicas(); !slices.Equal(got, want) || r.Measured() != measured || r.Cost.Commands != 2 {
			t.Errorf("measured %t: replicas %v, want %v; cost %+v", measured, got, want, r.Cost)
		}
		if s.trace != nil && (!measured || s.trace.Detailed()) {
			t.Errorf("measured %t: the coordinator's trace is %v", measured, s.trace)
		}
	}
}
