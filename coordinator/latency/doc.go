// Package latency records the response times of other nodes, and the durations of each table's reads.
//
// It does not measure or send requests: package coordinator records the durations, and uses them to choose which
// replicas to ask first, and when to ask one more because another is slow (the table option speculative_retry).
//
//	answer of a node ──▶ Peers   order of replicas
//	read of a table  ──▶ Tables ── policy of the option ──▶ time of the speculative request
package latency
