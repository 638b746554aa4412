package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cqld/internal/histogram"
	"cqld/node/control"
	"cqld/node/tablestats"
	"cqld/schema"
)

// Tables shows what this node measures of its tables.
type Tables struct {
	catalog   Catalog
	engine    *tablestats.Engine
	estimates *tablestats.Estimates
}

// Stats shows statistics of tables. A name without a table, and without a dropped table that can be restored,
// is an error before any figure is read.
func (s *Tables) Stats(_ context.Context, a control.TablesArgs, _ control.Report) (control.TableStats, error) {
	tables, err := s.catalog.Tables(a)
	dropped := s.catalog.retained(a)
	if err != nil && len(dropped) == 0 {
		return control.TableStats{}, err
	}
	out := control.TableStats{Tables: []control.TableStat{}}
	if out.Dropped, err = s.dropped(dropped); err != nil {
		return out, err
	}
	// The size of the memtable is of all tables together, because they share it.
	if p := s.engine.Metrics().Pebble; p != nil {
		out.MemTableSize, out.Flushes = int64(p.MemTable.Size), p.Flush.Count
	}
	for _, t := range tables {
		size, err := s.engine.TableSize(t.StorageID)
		if err != nil {
			return out, err
		}
		f := s.engine.Of(t.StorageID)
		// Partitions are estimated, because counting them would read the table.
		partitions := s.estimates.Of(t)
		out.Tables = append(out.Tables, control.TableStat{Keyspace: t.Keyspace, Table: t.Name, Bytes: size.Bytes,
			Files:  size.Files,
			Levels: size.Levels, MaxBytes: size.MaxBytes, Partitions: partitions.All(),
			MeanPartition: partitions.MeanBytes, Reads: f.Read.Count() + f.Scan.Count(), Writes: f.Write.Count(),
			// Reads of single partitions and scans have histograms of their own; the mean is of the former, if there
			// is any.
			ReadLatency: cmp.Or(f.Read.Latency().Mean(), f.Scan.Latency().Mean())})
	}
	return out, nil
}

// dropped returns the space of dropped tables on this node.
func (s *Tables) dropped(tables []*schema.Table) (out []control.DroppedStat, err error) {
	all := s.catalog.schema()
	for _, t := range tables {
		size, err := s.engine.TableSize(t.StorageID)
		if err != nil {
			return nil, err
		}
		// Both ends are from the clock of the node that executed the statement.
		x := control.DroppedStat{Keyspace: t.Keyspace, Table: t.Name, ID: t.ID.String(), Bytes: size.Bytes,
			Dropped: time.Unix(t.Retention.Dropped, 0).UTC(), Until: time.Unix(t.Retention.Until, 0).UTC()}
		// The schema may be a later one, without the keyspace.
		if k := all.StoredKeyspace(t.Keyspace); k != nil && k.Dropped != nil {
			x.Keyspace, x.KeyspaceID = k.Dropped.Name, uint32(k.Dropped.Number)
		}
		out = append(out, x)
	}
	return out, nil
}

// Histograms shows the read latencies of a table.
func (s *Tables) Histograms(_ context.Context, a control.TableArgs, _ control.Report) (control.TableHistograms, error) {
	t, err := s.catalog.one(a)
	if err != nil {
		return control.TableHistograms{}, err
	}
	return control.TableHistograms{TableArgs: a, Read: percentiles(s.engine.Of(t.StorageID).Read.Latency())}, nil
}

// sampleMax bounds how long toppartitions samples. A sample slows reads and writes of its table down a little (a lock
// for each), so it must not run forever.
const sampleMax = 10 * time.Minute

// TopPartitions samples requests, and shows the most used partitions of a table. Other operators can take a sample
// only after it.
func (s *Tables) TopPartitions(ctx context.Context, a control.TopArgs, report control.Report) (control.Top, error) {
	out := control.Top{TableArgs: a.TableArgs}
	t, err := s.catalog.one(a.TableArgs)
	if err != nil {
		return out, err
	}
	if a.Duration <= 0 || a.Duration > sampleMax {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("the time must be more than 0 and at most %s", sampleMax)}
	}
	if a.Count < 0 {
		return out, &control.Error{Code: control.Invalid, Message: "the number of partitions must not be negative"}
	}
	sample := s.engine.StartSample(t.StorageID)
	if sample == nil {
		return out, &control.Error{Code: control.Refused,
			Message: "another toppartitions is in progress: try again later"}
	}
	// The command ends with its client, and then the sample as well.
	err = wait(ctx, a.Duration, report)
	s.engine.StopSample()
	if err != nil {
		return out, err
	}
	// Ten partitions of each kind, as in nodetool.
	count := cmp.Or(a.Count, 10)
	out.Reads, out.Writes = topOf(t, &sample.Reads, count), topOf(t, &sample.Writes, count)
	return out, nil
}

// wait waits, and reports the time elapsed. The progress is reported often, because a sample may take minutes.
func wait(ctx context.Context, d time.Duration, report control.Report) error {
	// A hundred reports, at most one every 10 ms.
	every := time.NewTicker(max(d/100, 10*time.Millisecond))
	defer every.Stop()
	begin := time.Now()
	for {
		passed := time.Since(begin)
		if passed >= d {
			return nil
		}
		report(control.Progress{What: "sampling (ms)", Done: passed.Milliseconds(), Total: d.Milliseconds()})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}

// topOf returns the partitions of a sample with the keys that CQL writes.
func topOf(t *schema.Table, keys *tablestats.TopKeys, count int) []control.TopPartition {
	out := []control.TopPartition{}
	for _, k := range keys.Top(count) {
		// The error is how many requests the sample may have counted too many.
		out = append(out, control.TopPartition{Key: keyText(t, []byte(k.Key)), Count: k.Count, Error: k.Error})
	}
	return out
}

// percentiles summarizes a histogram for an operator.
func percentiles(h *histogram.Histogram) control.Percentiles {
	p := h.Percentiles()
	return control.Percentiles{Count: p.Count, P50: p.P50, P75: p.P75, P95: p.P95, P98: p.P98, P99: p.P99, Min: p.Min,
		Max: p.Max}
}
