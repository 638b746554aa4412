// Package process starts, kills and stops servers as processes of their own: rings of cqld nodes from a freshly built
// binary, and nodes of the reference Cassandra. Tests and the benchmark share it. It knows the servers only by their
// command lines and by what they answer to clients.
package process
