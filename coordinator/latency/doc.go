// Package latency remembers how long other nodes take to answer, and how long reads of each table take.
//
// It measures nothing and asks nobody: coordinator tells it, and decides with it which replicas are asked first,
// and when one more is asked because another is late (the table option speculative_retry).
//
//	answer of a node ──▶ Peers   who is asked first
//	read of a table  ──▶ Tables ── policy of the option ──▶ when one more is asked
package latency
