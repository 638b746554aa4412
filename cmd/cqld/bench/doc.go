// Package bench is `cqld bench`: loads that a person puts on servers to learn what they stand. Comparing
// cqld with others is integration/bench's.
//
//	partition ─▶ create a table ─▶ load one partition ─▶ 1, 2, 4 … requests in flight ─▶ the curve
//	                                                       │ 503 500 504: back off, try again
package bench

// Commands are the subcommands of `cqld bench`.
type Commands struct {
	Partition partitionCommand `cmd:"" help:"Measure how many entities per second one partition of an Azure table can take."`
}
