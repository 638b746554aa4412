package cputime

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// machine returns how long the processors of this machine have worked and how long they have existed since it started,
// summed over all processors (proc_stat(5)), or false if the kernel does not say.
//
//	cpu  user nice system idle iowait irq softirq steal guest guest_nice    in ticks of 10 ms
func machine() (busy, all time.Duration, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	return parseStat(b)
}

// parseStat reads the first line of /proc/stat. user and nice contain guest and guest_nice already.
func parseStat(b []byte) (busy, all time.Duration, ok bool) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0, false
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures of Go
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		all += time.Duration(n) * tick
		if i != 3 && i != 4 { // idle and iowait
			busy += time.Duration(n) * tick
		}
	}
	return busy, all, true
}
