package memory

import (
	"os"

	"golang.org/x/sys/unix"
)

// Local returns this machine.
func Local() System { return System{Root: os.DirFS("/"), Machine: machine} }

// machine returns the memory of the machine.
func machine() int64 {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return 0
	}
	// The unit is 1 on 64-bit systems.
	return int64(i.Totalram) * int64(i.Unit)
}
