package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

// measurement is one line of the report. The names in JSON carry the unit. PerSecond counts the successful requests in
// the time of the slowest connection.
type measurement struct {
	Server   string `json:"server"`
	Workload string `json:"workload"`
	InFlight int    `json:"in_flight"`
	Round    int    `json:"round"`
	Ops      int64  `json:"ops"`
	// Times in microseconds; CPU time is divided by the number of operations.
	PerSecond float64 `json:"ops_per_second"`
	P50       int64   `json:"p50_us"`
	P99       int64   `json:"p99_us"`
	P999      int64   `json:"p999_us"`
	ServerCPU float64 `json:"server_cpu_us_per_op"`
	ClientCPU float64 `json:"client_cpu_us_per_op"`
}

// newMeasurement returns the measurement of an outcome, with the CPU time of all servers and of this process in it.
// Percentiles count successful requests only.
func newMeasurement(server, workload string, inFlight int, o *outcome, cpu, own time.Duration) *measurement {
	// A run without operations has no division by zero.
	perOp := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(o.Ops, 1)) }
	return &measurement{Server: server, Workload: workload, InFlight: inFlight, Ops: o.Ops,
		PerSecond: float64(o.Ops) / o.Elapsed.Seconds(),
		P50:       o.Latency.ValueAtQuantile(50), P99: o.Latency.ValueAtQuantile(99),
		P999:      o.Latency.ValueAtQuantile(99.9),
		ServerCPU: perOp(cpu), ClientCPU: perOp(own)}
}

// ownCPU returns the CPU time of this process so far. It includes all threads.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// report prints measurements as they are taken, and keeps them for the comparison at the end. With json it prints one
// object on each line and no comparison. It is used by one goroutine.
type report struct {
	json bool
	all  []*measurement
}

// row is the format of a line of the table and of its head. Widths fit 7 digits of throughput.
const row = "%-8s %-8s %6v %6v %10v %9v %9v %9v %12v %12v\n"

// begin prints the start of each server and the head of the table. It is called once, before the first add.
func (r *report) begin(targets []*target) {
	for _, t := range targets {
		if r.json {
			json.NewEncoder(os.Stdout).Encode(map[string]any{"server": t.name, "nodes": len(t.addresses),
				"first_answer_ms": t.startup.Milliseconds(), "idle_rss_mb": t.idleRSS >> 20})
			// The start of a server that ran already was not measured.
		} else if t.owned {
			fmt.Printf("%s: %d nodes, answering after %v, idle memory of a node %d MB\n", t.name, len(t.addresses),
				t.startup.Round(time.Millisecond), t.idleRSS>>20)
		}
	}
	if !r.json {
		fmt.Printf(row, "server", "workload", "flight", "round", "ops/s", "p50 µs", "p99 µs", "p999 µs",
			"server µs/op", "client µs/op")
	}
}

// add prints a measurement. Rows appear while the measurements run, so that an interrupted run has a report.
func (r *report) add(m *measurement) {
	r.all = append(r.all, m)
	if r.json {
		json.NewEncoder(os.Stdout).Encode(m)
		return
	}
	m.print(fmt.Sprint(m.Round))
}

// print prints a line of the table. round is a number, or "best".
func (m *measurement) print(round string) {
	fmt.Printf(row, m.Server, m.Workload, m.InFlight, round, fmt.Sprintf("%.0f", m.PerSecond), m.P50, m.P99, m.P999,
		fmt.Sprintf("%.1f", m.ServerCPU), fmt.Sprintf("%.1f", m.ClientCPU))
}

// end prints, for each measurement, the round with the lowest cost for the server, and compares the servers. The ratio
// is below 1 if cqld uses less CPU time.
func (r *report) end() {
	if r.json {
		return
	}
	fmt.Println("\nbest rounds by the servers' CPU time")
	// The lowest CPU time is the least disturbed round: other load on the machine only adds to it. By server, workload
	// and number in flight.
	best := map[[3]any]*measurement{}
	for _, m := range r.all {
		key := [3]any{m.Server, m.Workload, m.InFlight}
		if b := best[key]; b == nil || m.ServerCPU < b.ServerCPU {
			best[key] = m
		}
	}
	for _, m := range r.all {
		// In the order of the measurements, not of the map.
		if best[[3]any{m.Server, m.Workload, m.InFlight}] != m {
			continue
		}
		m.print("best")
		if c := best[[3]any{"cqld", m.Workload, m.InFlight}]; c != nil && m.Server != "cqld" {
			fmt.Printf("%-8s %-8s %6d  the CPU time of cqld is %.2f of it\n", "", m.Workload, m.InFlight,
				c.ServerCPU/m.ServerCPU)
		}
	}
}
