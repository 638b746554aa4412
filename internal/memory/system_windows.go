package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Local returns this machine. Limits of job objects, which Windows containers have, are not read.
func Local() System { return System{Root: os.DirFS("/"), Machine: machine} }

// statusEx is the structure MEMORYSTATUSEX. The layout is fixed by the Windows API.
type statusEx struct {
	length, load                    uint32
	physical, available             uint64
	pageFile, availablePageFile     uint64
	virtual, availableVirtual, more uint64
}

// machine returns the memory of the machine, and 0 if the system does not report it.
func machine() int64 {
	status := statusEx{length: uint32(unsafe.Sizeof(statusEx{}))}
	report := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if ok, _, _ := report.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return int64(status.physical)
}
