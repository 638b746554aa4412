package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// restrictFiles does nothing: files inherit the access rights of their directory. In the user's profile, only the user
// and administrators have access.
func restrictFiles() {}

// separate puts the process of cmd in a process group of its own, which Ctrl-C does not reach.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// outlive makes the process of cmd continue when this process and its console end.
func outlive(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// requestStop asks a process, to which separate was applied, to stop. Such a process group receives Ctrl-Break, which
// the process sees as os.Interrupt.
func requestStop(p *os.Process) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}
