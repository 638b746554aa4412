package cqldtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/cputime"
)

// BenchmarkFilteredScan reads 100,000 rows of 150 bytes from one node with a filter that 100 of them match. At ONE, the
// replica evaluates the filter. At SERIAL, which is QUORUM for more than one partition, the coordinator evaluates it;
// the path is the same otherwise. The metric cpu-ms/op is the CPU time of the process, of which the client is a small
// part.
func BenchmarkFilteredScan(b *testing.B) {
	const partitions, rows, matching = 1000, 100, 100
	ring := cqldtest.Start(b, cqldtest.Nodes(1))
	config := gocql.NewCluster(ring.Addresses()...)
	config.Port, config.Logger, config.Timeout = ring.Port(), quiet{}, time.Minute
	session, err := config.CreateSession()
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	for _, statement := range []string{
		"CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE b.t (k int, c int, v int, w text, PRIMARY KEY (k, c))",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			b.Fatal(err)
		}
	}
	payload := strings.Repeat("w", 130)
	for k := range partitions {
		batch := session.Batch(gocql.UnloggedBatch)
		for c := range rows {
			batch.Query("INSERT INTO b.t (k, c, v, w) VALUES (?, ?, ?, ?)", k, c,
				(k*rows+c)%(partitions*rows/matching), payload)
		}
		if err := batch.Exec(); err != nil {
			b.Fatal(err)
		}
	}
	for _, level := range []gocql.Consistency{gocql.One, gocql.Serial} {
		b.Run(fmt.Sprint(level), func(b *testing.B) {
			before := cputime.Process()
			for b.Loop() {
				n := 0
				iter := session.Query("SELECT k, c FROM b.t WHERE v = ? ALLOW FILTERING", 7).Consistency(level).Iter()
				for row := iter.Scanner(); row.Next(); {
					n++
				}
				if err := iter.Close(); err != nil || n != matching {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64((cputime.Process()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
