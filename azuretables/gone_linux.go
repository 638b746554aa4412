package azuretables

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"cqld/tlsconfig"
)

// disconnected reports whether the client has closed its end of the connection. It does not read from the connection
// or block. TLS has no separate file descriptor. Bytes that the client has sent ahead do not count as a disconnect.
// It may be called by another goroutine than the one that uses c.
func disconnected(c net.Conn) bool {
	if secure, ok := c.(*tlsconfig.Conn); ok {
		c = secure.NetConn()
	}
	// A connection of a test may have no descriptor; then no disconnect is detected.
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true // closed at this end
	}
	closed := false
	// Control keeps the descriptor open during the poll.
	err = raw.Control(func(fd uintptr) {
		// POLLRDHUP is the peer's end of stream: a client that closes only its sending half counts as disconnected,
		// too.
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		// Timeout 0: the poll never blocks.
		n, err := unix.Poll(poll, 0)
		closed = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return closed || err != nil
}
