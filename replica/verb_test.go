package replica

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

func sampleMutation(key string) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(1024, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Liveness.Timestamp = 7
	r.Cells = append(r.Cells, row.Cell{Column: 3, Timestamp: 7, Value: []byte("v")})
	m.AddRow(r)
	m.AddRangeTombstone(row.RangeTombstone{Start: []byte("a"), End: []byte("b"),
		Deletion: row.Deletion{Timestamp: 5, LocalTime: 6}})
	return m
}

func TestMutationsRoundTrip(t *testing.T) {
	for n := range 4 {
		var ms []*row.Mutation
		for i := range n {
			ms = append(ms, sampleMutation(fmt.Sprint("key", i)))
		}
		payload := appendMutations(nil, 9, ms)
		_, got, err := decodeMutations(payload, nil)
		if err != nil || len(got) != n {
			t.Fatalf("%d mutations: %d, %v", n, len(got), err)
		}
		if again := appendMutations(nil, 9, got); !bytes.Equal(again, payload) {
			t.Errorf("%d mutations: %x, again %x", n, payload, again)
		}
		for cut := range payload {
			if _, _, err := decodeMutations(payload[:cut], nil); err == nil {
				t.Errorf("%d of %d bytes are not a request", cut, len(payload))
			}
		}
	}
}

func sampleCommand() *row.ReadCommand {
	return &row.ReadCommand{
		Table: 1024, Key: row.NewPartitionKey([]byte("k")),
		Slices:   []row.Slice{{Start: []byte("a"), End: []byte("b")}, {Start: []byte("x")}},
		Reversed: true, StaticCounts: true, Limits: row.Limits{Rows: 5, PerPartition: 2}, Now: 123,
	}
}

func TestReadsRoundTrip(t *testing.T) {
	after := row.NewPartitionKey([]byte("z"))
	ranged := sampleCommand()
	ranged.Key, ranged.Range = row.PartitionKey{}, row.KeyRange{Tokens: ring.FullRange(), After: &after}
	for _, cmd := range []*row.ReadCommand{sampleCommand(), ranged} {
		payload := appendRead(nil, 9, cmd)
		var got row.ReadCommand
		if _, err := decodeRead(payload, &got); err != nil {
			t.Fatal(err)
		}
		if again := appendRead(nil, 9, &got); !bytes.Equal(again, payload) {
			t.Errorf("%+v, again %+v", cmd, got)
		}
	}
	sent := coordinator.Truncation{Table: 77, ID: 1 << 60, Phase: coordinator.TruncationEnd}
	if epoch, id, timeout, err := decodeTruncate(appendTruncate(nil, 9, sent, 3*time.Second)); epoch != 9 ||
		id != sent || timeout != 3*time.Second || err != nil {
		t.Errorf("truncate: %v, %v", id, err)
	}
}

// TestErrorsKeepTheirMeaning encodes and decodes every kind of failure.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	var refusal *coordinator.NotReplica
	if err := FromRemote(ToRemote(&coordinator.NotReplica{Epoch: 12})); !errors.As(err, &refusal) ||
		refusal.Epoch != 12 {
		t.Errorf("refusal: %v", err)
	}
	var overloaded *coordinator.Overloaded
	if err := FromRemote(ToRemote(&coordinator.Overloaded{What: "x"})); !errors.As(err, &overloaded) ||
		!errors.Is(err, coordinator.ErrNotSent) {
		t.Errorf("overload: %v", err)
	}
	if err := FromRemote(ToRemote(&notApplied{errors.New("full")})); !errors.Is(err, coordinator.ErrNotSent) ||
		err.Error() != "full" {
		t.Errorf("not applied: %v", err)
	}
	for reason := coordinator.FailureUnknown; reason <= coordinator.FailureReadTooManyIndexes; reason++ {
		var failure *coordinator.ReplicaFailure
		err := FromRemote(ToRemote(&coordinator.ReplicaFailure{Reason: reason, Message: "m"}))
		if !errors.As(err, &failure) || failure.Reason != reason || failure.Message != "m" ||
			errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("reason %d: %v", reason, err)
		}
	}
	for _, x := range []struct {
		err  error
		want error
	}{
		{messaging.ErrUnreachable, coordinator.ErrNotSent},
		{messaging.ErrOverloaded, coordinator.ErrNotSent},
		{&messaging.RemoteError{Code: messaging.CodeOverloaded}, coordinator.ErrNotSent},
		{messaging.ErrTimeout, coordinator.ErrNoReply},
	} {
		if got := FromRemote(x.err); !errors.Is(got, x.want) {
			t.Errorf("%v became %v, want %v", x.err, got, x.want)
		}
	}
	if errors.Is(FromRemote(messaging.ErrTimeout), coordinator.ErrNotSent) {
		t.Error("a timeout may have been applied")
	}
	if FromRemote(nil) != nil || ToRemote(nil) != nil {
		t.Error("nil is no failure")
	}
}

func FuzzDecodeMutations(f *testing.F) {
	f.Add(appendMutations(nil, 1, []*row.Mutation{sampleMutation("k")}))
	f.Add(appendMutations(nil, 1<<40, []*row.Mutation{sampleMutation("k"), sampleMutation("")}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, got, err := decodeMutations(payload, nil)
		if err != nil {
			return
		}
		_, again, err := decodeMutations(appendMutations(nil, 0, got), nil)
		if err != nil || len(again) != len(got) {
			t.Errorf("%d mutations became %d: %v", len(got), len(again), err)
		}
	})
}

func FuzzDecodeRead(f *testing.F) {
	f.Add(appendRead(nil, 1, sampleCommand()))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		var cmd, again row.ReadCommand
		if _, err := decodeRead(payload, &cmd); err != nil {
			return
		}
		if _, err := decodeRead(appendRead(nil, 0, &cmd), &again); err != nil {
			t.Errorf("%+v cannot be read again: %v", cmd, err)
		}
	})
}
