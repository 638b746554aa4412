package process

import "syscall"

// Pause stops the process where it is, as a machine that hangs does: it answers nothing, and its
// connections stay open.
func (s *Server) Pause() error { return syscall.Kill(s.PID, syscall.SIGSTOP) }

// Resume lets it go on.
func (s *Server) Resume() error { return syscall.Kill(s.PID, syscall.SIGCONT) }

// UseBinary makes the next Start run another build.
func (s *Server) UseBinary(path string) { s.argv[0] = path }
