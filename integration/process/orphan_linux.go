package process

import (
	"os/exec"
	"syscall"
)

// bound makes the process end with this one, so that a killed test leaves no servers running.
func bound(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
