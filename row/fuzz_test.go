package row

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"cqld/internal/wire"
)

func FuzzDecodeRow(f *testing.F) {
	rng := rand.New(rand.NewPCG(20, 1))
	for range 30 {
		f.Add(encoded(randomRow(rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		first, second := NewRow(), NewRow()
		err := DecodeRow(first, b)
		if _, scanned := Summarize(b, 100); (err == nil) != (scanned == nil) {
			t.Fatalf("DecodeRow returns %v, Summarize %v", err, scanned)
		}
		if err != nil {
			return
		}
		again := encoded(first)
		if err := DecodeRow(second, again); err != nil || !equalRows(first, second) {
			t.Fatalf("%+v became %+v (%v)", first, second, err)
		}
		if validate(b) == nil {
			sum := canonical(first)
			sameRow(t, "canonical", canonical(sum), sum)
		}
	})
}

func FuzzConsumeMutation(f *testing.F) {
	rng := rand.New(rand.NewPCG(21, 1))
	for range 30 {
		f.Add(AppendMutation(nil, randomMutation(rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Mutation
		c := wire.NewCursor(b)
		ConsumeMutation(&c, &m)
		if c.Err() != nil {
			return
		}
		var e Entry
		r := NewRow()
		entries := m.Entries()
		for entries.Next(&e) {
			if err := DecodeRow(r, e.Value); err != nil {
				t.Fatalf("a row that was checked: %v", err)
			}
		}
		if entries.Err() != nil {
			t.Fatal(entries.Err())
		}
		c = wire.NewCursor(AppendMutation(nil, &m))
		ConsumeMutation(&c, &again)
		if c.Finish() != nil || !bytes.Equal(again.entries, m.entries) || again.Key.Compare(m.Key) != 0 {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func FuzzConsumeReadCommand(f *testing.F) {
	rng := rand.New(rand.NewPCG(22, 1))
	for range 30 {
		f.Add(AppendReadCommand(nil, randomCommand(rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var cmd, again ReadCommand
		c := wire.NewCursor(b)
		ConsumeReadCommand(&c, &cmd)
		if c.Err() != nil {
			return
		}
		first := AppendReadCommand(nil, &cmd)
		c = wire.NewCursor(first)
		ConsumeReadCommand(&c, &again)
		if c.Finish() != nil || !bytes.Equal(AppendReadCommand(nil, &again), first) {
			t.Fatalf("%+v became %+v", cmd, again)
		}
	})
}

func FuzzPageReader(f *testing.F) {
	rng := rand.New(rand.NewPCG(23, 1))
	for range 30 {
		f.Add(pageOf(randomPartition(rng)))
		w := NewPageWriter(nil)
		f.Add(w.FinishAfter(&Position{Key: NewPartitionKey(randomBound(rng)), Clustering: randomBound(rng),
			Whole: rng.IntN(2) == 0}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r PageReader
		var row Row
		w := NewPageWriter(nil)
		r.Reset(b)
		for r.NextPartition() {
			w.Partition(r.Key, &r.Header, r.RangeTombstones)
			for r.NextRow(&row) {
				w.Row(&row)
			}
			w.EndPartition()
		}
		if r.Err() != nil {
			return
		}
		first := w.Finish(r.More())
		if end := r.End(); end != nil {
			w = NewPageWriter(nil)
			first = w.FinishAfter(end)
		}
		if err := walk(first); err != nil {
			t.Fatalf("written again: %v", err)
		}
	})
}
