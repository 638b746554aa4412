package process

import (
	"os/exec"
	"syscall"
)

// bound makes the process die with this one, so that a test that is killed leaves no servers behind.
func bound(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
