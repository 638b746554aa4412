// Package cputime measures the processor time of this process, for tests and benchmarks. It does not depend on what
// else the machine does, as the time of day does.
package cputime
