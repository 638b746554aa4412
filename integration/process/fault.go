package process

import "syscall"

// Pause stops the process, like a machine that hangs: it does not respond, and its connections stay open.
func (s *Server) Pause() error { return syscall.Kill(s.PID, syscall.SIGSTOP) }

// Resume continues the process.
func (s *Server) Resume() error { return syscall.Kill(s.PID, syscall.SIGCONT) }

// UseBinary makes the next Start execute another build.
func (s *Server) UseBinary(path string) { s.argv[0] = path }

// OneCore makes the next start of the server execute Go code on one core at a time.
func (s *Server) OneCore() { s.argv = append([]string{"env", "GOMAXPROCS=1"}, s.argv...) }
