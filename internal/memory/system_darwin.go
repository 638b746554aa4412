package memory

import (
	"os"

	"golang.org/x/sys/unix"
)

// Local returns this machine.
func Local() System { return System{Root: os.DirFS("/"), Machine: machine} }

// machine returns the memory of the machine.
func machine() int64 {
	// macOS.
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
