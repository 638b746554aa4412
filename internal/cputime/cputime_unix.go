//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Process returns the user and system time of all threads of this process. It panics if the system does not have it.
func Process() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
