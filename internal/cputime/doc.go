// Package cputime measures the processor time of this process, for tests and benchmarks. It does not depend on what
// else the machine does, as the time of day does. On Unix it reads getrusage(2), on Windows GetProcessTimes.
// Differences of two readings are meaningful; a single one includes the start of the process.
package cputime
