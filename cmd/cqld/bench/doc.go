// Package bench implements `cqld bench`: load tests with which an operator measures the capacity of servers.
// Comparisons of cqld with other databases are in integration/bench.
//
//	partition ─▶ create a table ─▶ load one partition ─▶ 1, 2, 4 … requests in flight ─▶ the curve
//	                                                       │ 503 500 504: back off, try again
package bench

// Commands are the subcommands of `cqld bench`.
type Commands struct {
	Partition partitionCommand `cmd:"" help:"Measure how many entities per second one partition of an Azure table can take."`
}
