package cputime

import (
	"syscall"
	"time"
)

// Process returns the user and system time of all threads of this process. It panics if the system does not have it.
// The resolution is the tick of the system, usually 15.6 ms.
func Process() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		panic(err)
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &exited, &kernel, &user); err != nil {
		panic(err)
	}
	return ticks(kernel) + ticks(user)
}

// ticks converts a duration in units of 100 ns. Filetime.Nanoseconds is for moments: it subtracts the years before
// 1970.
func ticks(f syscall.Filetime) time.Duration {
	return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
}
