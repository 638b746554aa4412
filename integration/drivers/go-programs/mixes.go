package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mixRecords = 1000
	mixTime    = 1100 * time.Millisecond // of each mix
	mixWorkers = 8
)

// mix is a core workload of the Yahoo Cloud Serving Benchmark: percentages of the kinds of requests. The benchmark
// itself is run by ../go-ycsb; its driver does not scan, and it does not notice when a read returns an older version.
type mix struct {
	name                               string
	read, update, insert, scan, modify int
	latest                             bool // new records are read most
}

var coreMixes = []mix{{name: "a", read: 50, update: 50}, {name: "d", read: 95, insert: 5, latest: true},
	{name: "e", scan: 95, insert: 5}, {name: "f", read: 50, modify: 50}}

// record is what is known of a stored record. Its lock is held while it is written, and while it is read and compared.
type record struct {
	mu      sync.Mutex
	version int
}

// mixer executes a mix.
type mixer struct {
	p       *program
	records []record
	count   atomic.Int64 // of records; those before are stored
	next    atomic.Int64 // the next record to insert
	steps   [5]atomic.Int64
}

// mixes executes all mixes and compares every answer with what was written.
func mixes(p *program) {
	x := &mixer{p: p, records: make([]record, 50*mixRecords)}
	p.check("load", func() error {
		if err := p.all(`CREATE TABLE usertable (y_id varchar PRIMARY KEY, field0 varchar, field1 varchar, field2 varchar, field3 varchar, field4 varchar)`); err != nil {
			return err
		}
		x.next.Store(mixRecords)
		return x.workers(func(w int, _ *rand.Rand) error {
			for i := w; i < mixRecords; i += mixWorkers {
				if err := x.write(i, 1); err != nil {
					return err
				}
				x.records[i].version = 1
			}
			return nil
		})
	})
	x.count.Store(mixRecords)
	for _, m := range coreMixes {
		p.check(m.name, func() error {
			end := time.Now().Add(mixTime)
			return x.workers(func(_ int, r *rand.Rand) error {
				for time.Now().Before(end) {
					if err := x.step(m, r); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	p.check("all", func() error {
		for i, kind := range []string{"reads", "updates", "inserts", "scans", "modifications"} {
			if x.steps[i].Load() == 0 {
				return fmt.Errorf("there were no %s", kind)
			}
		}
		return x.scan("", math.MaxInt32)
	})
}

// workers calls work in goroutines and waits for them.
func (x *mixer) workers(work func(worker int, r *rand.Rand) error) error {
	var wg sync.WaitGroup
	errs := make([]error, mixWorkers)
	for w := range errs {
		wg.Go(func() { errs[w] = work(w, rand.New(rand.NewPCG(1, uint64(w)))) })
	}
	wg.Wait()
	return first(errs...)
}

// step executes one request of a mix.
func (x *mixer) step(m mix, r *rand.Rand) error {
	n := r.IntN(100)
	id := x.choose(m, r)
	switch {
	case n < m.read:
		x.steps[0].Add(1)
		return x.locked(id, func(rec *record) error { return x.check(id, rec.version) })
	case n < m.read+m.update:
		x.steps[1].Add(1)
		return x.locked(id, func(rec *record) error {
			rec.version++
			return x.write(id, rec.version)
		})
	case n < m.read+m.update+m.insert:
		x.steps[2].Add(1)
		return x.insert()
	case n < m.read+m.update+m.insert+m.scan:
		x.steps[3].Add(1)
		return x.scan(key(id), 1+r.IntN(50))
	}
	x.steps[4].Add(1)
	return x.locked(id, func(rec *record) error {
		if err := x.check(id, rec.version); err != nil {
			return err
		}
		rec.version++
		return x.write(id, rec.version)
	})
}

// insert stores a new record. Records become visible to the choice in order.
func (x *mixer) insert() error {
	id := int(x.next.Add(1) - 1)
	if id >= len(x.records) {
		return fmt.Errorf("there are more than %d records", len(x.records))
	}
	err := x.locked(id, func(rec *record) error {
		rec.version = 1
		return x.write(id, 1)
	})
	for x.count.Load() < int64(id) { // inserts before this one are not finished
		time.Sleep(time.Millisecond)
	}
	x.count.Store(int64(id) + 1)
	return err
}

// choose returns a record by a distribution in which few records are requested most (Zipf, exponent 0.99).
func (x *mixer) choose(m mix, r *rand.Rand) int {
	n := float64(x.count.Load())
	// The inverse of the integral of x^-0.99.
	rank := int(math.Pow(r.Float64()*(math.Pow(n, 0.01)-1)+1, 100)) - 1
	rank = min(max(rank, 0), int(n)-1)
	if m.latest {
		return int(n) - 1 - rank
	}
	return int(uint64(rank) * 0x9e3779b1 % uint64(n)) // scattered over the records
}

func (x *mixer) locked(id int, do func(*record) error) error {
	rec := &x.records[id]
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return do(rec)
}

func key(id int) string { return fmt.Sprintf("user%07d", id) }

func field(id, version, number int) string { return fmt.Sprintf("%d/%d/%d", id, version, number) }

func (x *mixer) write(id, version int) error {
	args := []any{}
	for i := range 5 {
		args = append(args, field(id, version, i))
	}
	return x.p.Query(`UPDATE usertable SET field0 = ?, field1 = ?, field2 = ?, field3 = ?, field4 = ? WHERE y_id = ?`,
		append(args, key(id))...).Exec()
}

// check reads a record, and compares all fields.
func (x *mixer) check(id, version int) error {
	var f [5]string
	err := x.p.Query(`SELECT field0, field1, field2, field3, field4 FROM usertable WHERE y_id = ?`,
		key(id)).Scan(&f[0], &f[1], &f[2], &f[3], &f[4])
	if err != nil {
		return fmt.Errorf("record %d: %w", id, err)
	}
	for i := range f {
		if f[i] != field(id, version, i) {
			return fmt.Errorf("record %d is %q, want version %d", id, f, version)
		}
	}
	return nil
}

// scan reads records in the order of tokens from a key on, all if it is empty. Other workers write meanwhile: a record
// is some version that was written, with fields of one version. Without other workers, all records are compared.
func (x *mixer) scan(from string, limit int) error {
	text, args := `SELECT y_id, field0, field4, token(y_id) FROM usertable`, []any{}
	if from != "" {
		text += ` WHERE token(y_id) >= token(?) LIMIT ?`
		args = []any{from, limit}
	}
	iter := x.p.Query(text, args...).PageSize(500).Iter()
	var k, a, b string
	last, token, count := int64(math.MinInt64), int64(0), 0
	for iter.Scan(&k, &a, &b, &token) {
		var id, version int
		if _, err := fmt.Sscanf(a, "%d/%d/0", &id, &version); err != nil || k != key(id) || b != field(id, version, 4) {
			return fmt.Errorf("a scan returned %q, %q, %q: %w", k, a, b, err)
		}
		if count == 0 && from != "" && k != from || token < last {
			return fmt.Errorf("a scan from %q returned %q as row %d", from, k, count)
		}
		if from == "" && x.records[id].version != version {
			return fmt.Errorf("a scan returned version %d of record %d, want %d", version, id, x.records[id].version)
		}
		last = token
		count++
	}
	if err := iter.Close(); err != nil {
		return err
	}
	if from == "" && int64(count) != x.count.Load() || count > limit {
		return fmt.Errorf("a scan returned %d rows, of %d", count, x.count.Load())
	}
	return nil
}
