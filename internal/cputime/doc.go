// Package cputime measures the processor time of this process, for tests and benchmarks. Unlike elapsed time, it does
// not depend on the other load of the machine. On Unix it reads getrusage(2), on Windows GetProcessTimes. Differences
// of two readings are meaningful; a single one includes the start of the process.
package cputime
