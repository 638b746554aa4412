package cqldtest_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/cputime"
	"cqld/node/config"
)

var (
	benchRows    = flag.Int("index-rows", 100_000, "rows of BenchmarkSelectByIndex")
	benchVectors = flag.Int("index-vectors", 10_000, "rows of BenchmarkSelectNearest")
	benchCache   = flag.Int64("index-cache", 0, "bytes of the block cache of BenchmarkSelectByIndex; 0 means that "+
		"of test nodes")
	benchWait = flag.Duration("index-wait", 10*time.Second, "for the graph of BenchmarkSelectNearest")
)

// benchSession starts one node and executes statements in the keyspace b.
func benchSession(b *testing.B, statements ...string) *gocql.Session {
	ring := cqldtest.Start(b, cqldtest.Nodes(1), cqldtest.Configure(func(_ int, o *config.Options) {
		if *benchCache > 0 {
			o.Memory.CacheBytes = *benchCache
		}
	}))
	config := gocql.NewCluster(ring.Addresses()...)
	config.Port, config.Logger, config.Timeout = ring.Port(), quiet{}, time.Minute
	session, err := config.CreateSession()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(session.Close)
	for _, s := range append([]string{"CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 1}"}, statements...) {
		if err := session.Query(s).Exec(); err != nil {
			b.Fatal(err)
		}
	}
	return session
}

// countRows executes a SELECT and returns the number of its rows.
func countRows(b *testing.B, q *gocql.Query) (n int) {
	iter := q.Iter()
	for row := iter.Scanner(); row.Next(); {
		n++
	}
	if err := iter.Close(); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkInsertByIndexes inserts rows into a table without indexes, with one and with two. The metric cpu-µs/op is
// the CPU time of the process, with the client's part.
func BenchmarkInsertByIndexes(b *testing.B) {
	for indexes := range 3 {
		b.Run(fmt.Sprint("indexes=", indexes), func(b *testing.B) {
			s := benchSession(b, "CREATE TABLE b.t (k int, c int, v int, w int, x text, PRIMARY KEY (k, c))")
			for _, column := range []string{"v", "w"}[:indexes] {
				if err := s.Query("CREATE INDEX ON b.t (" + column + ")").Exec(); err != nil {
					b.Fatal(err)
				}
			}
			payload, i := strings.Repeat("x", 100), 0
			before := cputime.Process()
			for b.Loop() {
				i++
				if err := s.Query("INSERT INTO b.t (k, c, v, w, x) VALUES (?, ?, ?, ?, ?)", i/100, i%100, i%1000, i,
					payload).Exec(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cputime.Process()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkSelectByIndex reads rows by indexes, of 10 and 100 rows for each value, and by the partition key for
// comparison.
func BenchmarkSelectByIndex(b *testing.B) {
	s := benchSession(b, "CREATE TABLE b.t (k int, c int, v int, w int, t int, x text, PRIMARY KEY (k, c))",
		"CREATE INDEX ON b.t (v) USING 'sai'", "CREATE INDEX ON b.t (w) USING 'sai'",
		"CREATE INDEX ON b.t (t) USING 'sai'")
	payload, rows := strings.Repeat("x", 100), *benchRows
	for k := range rows / 100 {
		batch := s.Batch(gocql.UnloggedBatch)
		for c := range 100 {
			i := k*100 + c
			batch.Query("INSERT INTO b.t (k, c, v, w, t, x) VALUES (?, ?, ?, ?, ?, ?)", k, c, i%(rows/10),
				i%(rows/100), (i*7919)%rows%10, payload)
		}
		if err := batch.Exec(); err != nil {
			b.Fatal(err)
		}
	}
	for _, q := range []struct {
		where string
		rows  int
	}{
		{"k = 5", 100}, {"k = 5 AND c = 5", 1}, {"v = 7", 10}, {"w = 7", 100}, {"v = 7 OR w = 8", 110},
		{"v IN (7, 8) OR v = 9", 30},
		{"v = 7 AND w = 7", 10}, {"v > 7 LIMIT 10", 10},
	} {
		b.Run(q.where, func(b *testing.B) {
			before := cputime.Process()
			for b.Loop() {
				if n := countRows(b, s.Query("SELECT k, c, v, w FROM b.t WHERE "+q.where)); n != q.rows {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64((cputime.Process()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkSelectNearest reads the 10 nearest of vectors of 128 dimensions around 100 centers, by the similarity of the
// dot product, with vectors of length 1 and of lengths from 0.5 to 2. It reports the median time and recall@10.
func BenchmarkSelectNearest(b *testing.B) {
	for _, normalized := range []bool{true, false} {
		b.Run(fmt.Sprint("normalized=", normalized), func(b *testing.B) {
			s := benchSession(b, "CREATE TABLE b.v (k int PRIMARY KEY, v vector<float, 128>)",
				"CREATE CUSTOM INDEX ON b.v (v) USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': "+
					"'dot_product'}")
			r := rand.New(rand.NewPCG(1, 2))
			vectors := clustered(r, *benchVectors, normalized)
			for k := 0; k < len(vectors); k += 50 {
				batch := s.Batch(gocql.UnloggedBatch)
				for i := k; i < min(k+50, len(vectors)); i++ {
					batch.Query("INSERT INTO b.v (k, v) VALUES (?, ?)", i, vectors[i])
				}
				if err := batch.Exec(); err != nil {
					b.Fatal(err)
				}
			}
			near := func() []float32 {
				v := slices.Clone(vectors[r.IntN(len(vectors))])
				for i := range v {
					v[i] += float32(r.NormFloat64()) * 0.02
				}
				return v
			}
			nearest(b, s, near())
			time.Sleep(*benchWait)
			var took []time.Duration
			found, before := 0, cputime.Process()
			var asked [][]float32
			var answers [][]int
			for b.Loop() {
				v, began := near(), time.Now()
				keys := nearest(b, s, v)
				took = append(took, time.Since(began))
				if len(asked) < 100 {
					asked, answers = append(asked, v), append(answers, keys)
				}
			}
			b.ReportMetric(float64((cputime.Process()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
			for i, v := range asked {
				for _, k := range exact(vectors, v) {
					if slices.Contains(answers[i], k) {
						found++
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(found)/float64(10*len(asked)), "recall@10")
		})
	}
}

func nearest(b *testing.B, s *gocql.Session, v []float32) (keys []int) {
	iter := s.Query("SELECT k FROM b.v ORDER BY v ANN OF ? LIMIT 10", v).Iter()
	for k := 0; iter.Scan(&k); {
		keys = append(keys, k)
	}
	if err := iter.Close(); err != nil {
		b.Fatal(err)
	}
	return keys
}

// clustered returns n vectors around 100 centers.
func clustered(r *rand.Rand, n int, normalized bool) [][]float32 {
	centers := make([][]float64, 100)
	for i := range centers {
		for range 128 {
			centers[i] = append(centers[i], r.NormFloat64())
		}
	}
	out := make([][]float32, n)
	for i := range out {
		v, sum := make([]float64, 128), 0.0
		for k, c := range centers[r.IntN(len(centers))] {
			v[k] = c + r.NormFloat64()*0.5
			sum += v[k] * v[k]
		}
		scale := 1 / math.Sqrt(sum)
		if !normalized {
			scale *= 0.5 + 1.5*r.Float64()
		}
		for _, x := range v {
			out[i] = append(out[i], float32(x*scale))
		}
	}
	return out
}

// exact returns the numbers of the 10 vectors with the greatest dot product.
func exact(vectors [][]float32, v []float32) []int {
	scores, order := make([]float64, len(vectors)), make([]int, len(vectors))
	for i, x := range vectors {
		order[i] = i
		for k := range x {
			scores[i] += float64(x[k]) * float64(v[k])
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return order[:10]
}
