package process

import (
	"os/exec"
	"syscall"
)

// bound makes the process end with this one, so that a killed test leaves no servers running. The kernel sends the
// signal when the thread that started the process ends, which is why package netns never ends such a thread.
func bound(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
