package process

import "syscall"

// Pause stops the process, like a machine that hangs: it does not respond, and its connections stay open. Other nodes
// notice it only by timeouts, unlike a killed process, whose kernel resets its connections.
func (s *Server) Pause() error { return syscall.Kill(s.PID, syscall.SIGSTOP) }

// Resume continues the process. What clients sent meanwhile is in the buffers of the kernel, and is processed now.
func (s *Server) Resume() error { return syscall.Kill(s.PID, syscall.SIGCONT) }

// UseBinary makes the next Start execute another build. It replaces the first word of the command, so it must be called
// before OneCore, RunIn and HideProc, which put another word in front.
func (s *Server) UseBinary(path string) { s.argv[0] = path }

// OneCore makes the next start of the server execute Go code on one core at a time. The setting stays for later starts.
func (s *Server) OneCore() { s.argv = append([]string{"env", "GOMAXPROCS=1"}, s.argv...) }
