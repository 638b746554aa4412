// Package cputime measures the processor time of this process, for tests, benchmarks and measures of load, and which
// share of the machine's processors is in use, so that background work can yield. Unlike elapsed time, processor time
// does not depend on the other load of the machine. On Unix it reads getrusage(2), on Windows GetProcessTimes.
// Differences of two readings are meaningful; a single one includes the start of the process.
package cputime
