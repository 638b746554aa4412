// Package process starts, kills and stops servers as separate processes: rings of cqld nodes from a freshly built
// binary, and nodes of the reference Cassandra. Tests and the benchmark use it. It knows only the servers' command
// lines and their answers to clients.
package process
