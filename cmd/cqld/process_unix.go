//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// privateFiles is the process's umask: only the user who runs the node may access its data, metadata log, snapshots and
// logs.
const privateFiles = 0o077

// restrictFiles makes the files that this process creates private to its user. It affects the whole process and the
// processes that it starts.
func restrictFiles() { syscall.Umask(privateFiles) }

// separate puts the process of cmd in a process group of its own: Ctrl-C reaches only the parent process, which then
// stops the nodes in order.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// outlive makes the process of cmd continue when this process and its terminal end.
func outlive(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// requestStop asks a process, to which separate was applied, to stop.
func requestStop(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
