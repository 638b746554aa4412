package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// tablesMeasurement is one line of the report for Azure Tables. Refused counts requests that failed under load. Rows is
// the number that the table was filled up to; measured inserts add to it.
type tablesMeasurement struct {
	Server     string `json:"server"`
	Workload   string `json:"workload"`
	Partitions string `json:"partitions"`
	Rows       int    `json:"rows"`
	InFlight   int    `json:"in_flight"`
	Round      int    `json:"round"`
	Ops        int64  `json:"ops"`
	Refused    int64  `json:"refused"`
	// Entities, not requests: a transaction has a hundred, a page a thousand.
	PerSecond float64 `json:"entities_per_second"`
	P50       int64   `json:"p50_us"`
	P99       int64   `json:"p99_us"`
	// For each request, in microseconds.
	CPU float64 `json:"server_cpu_us_per_op"`
}

// newTablesMeasurement returns the measurement of an outcome. entities is the number in one request. CPU is divided by
// successful requests, so refused ones make it worse.
func newTablesMeasurement(server, workload string, inFlight, entities int, o *outcome,
	cpu time.Duration) *tablesMeasurement {
	return &tablesMeasurement{Server: server, Workload: workload, InFlight: inFlight, Ops: o.Ops, Refused: o.Errors,
		PerSecond: float64(o.Ops) * float64(entities) / o.Elapsed.Seconds(),
		P50:       o.Latency.ValueAtQuantile(50), P99: o.Latency.ValueAtQuantile(99),
		CPU: float64(cpu.Microseconds()) / float64(max(o.Ops, 1))}
}

// point identifies a measurement, independently of the server. It is a comparable key of a map.
type point struct {
	workload, partitions string
	rows, inFlight       int
}

// point returns what the measurement is compared by.
func (m *tablesMeasurement) point() point { return point{m.Workload, m.Partitions, m.Rows, m.InFlight} }

// tablesReport prints measurements as they are taken, and keeps the best of each point and server. The best round is
// the one with the least CPU time.
type tablesReport struct {
	json   bool
	points []point // in the order of the first round
	best   map[point]map[string]*tablesMeasurement
}

// begin prints the head of the table. The columns are explained in the package comment of bench.
func (r *tablesReport) begin() {
	r.best = map[point]map[string]*tablesMeasurement{}
	if !r.json {
		fmt.Printf("%-9s %-7s %-5s %6s %6s %5s %12s %9s %9s %12s %8s\n", "server", "work", "parts", "rows", "flight",
			"round", "entities/s", "p50 µs", "p99 µs", "server µs/op", "refused")
	}
}

// add prints a measurement. A server without successful operations has no best round, and is missing in the comparison.
func (r *tablesReport) add(m *tablesMeasurement) {
	if r.json {
		json.NewEncoder(os.Stdout).Encode(m)
	} else {
		fmt.Printf("%-9s %-7s %-5s %6d %6d %5d %12.0f %9d %9d %12.1f %8d\n", m.Server, m.Workload, m.Partitions,
			m.Rows, m.InFlight, m.Round, m.PerSecond, m.P50, m.P99, m.CPU, m.Refused)
	}
	p := m.point()
	if r.best[p] == nil {
		r.best[p] = map[string]*tablesMeasurement{}
		r.points = append(r.points, p)
	}
	// Without operations the CPU time would be zero, and the best.
	if b := r.best[p][m.Server]; m.Ops > 0 && (b == nil || m.CPU < b.CPU) {
		r.best[p][m.Server] = m
	}
}

// end prints, for each point, the rounds with the lowest cost for the servers, and the ratio of cqld's to Azurite's
// operations per second of CPU time. For example:
//
//	insert  one     1000 rows @16   azurite     512.0  cqld1      64.0 =   8.0×
func (r *tablesReport) end() {
	if r.json {
		return
	}
	fmt.Printf("\nbest rounds by the servers' CPU time: µs of CPU for each operation, and how many times Azurite's " +
		"throughput per CPU second\n")
	for _, p := range r.points {
		fmt.Printf("%-7s %-5s %6d rows @%-3d", p.workload, p.partitions, p.rows, p.inFlight)
		azurite := r.best[p]["azurite"]
		if azurite != nil {
			fmt.Printf("  azurite %9.1f", azurite.CPU)
		}
		for _, server := range slices.Sorted(maps.Keys(r.best[p])) {
			if server != "azurite" {
				r.compare(r.best[p][server], azurite)
			}
		}
		fmt.Println()
	}
}

// compare prints a server's CPU time and, if Azurite was measured, the ratio. The ratio is above 1 if the server uses
// less CPU time than Azurite.
func (r *tablesReport) compare(m, azurite *tablesMeasurement) {
	fmt.Printf("  %s %9.1f", m.Server, m.CPU)
	if azurite != nil && m.CPU > 0 {
		fmt.Printf(" = %5.1f×", azurite.CPU/m.CPU)
	}
}
