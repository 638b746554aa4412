package azuretables

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"cqld/tlsconfig"
)

// disconnected reports whether the client has closed its end of the connection. It does not read from the connection or
// block.
func disconnected(c net.Conn) bool {
	if secure, ok := c.(*tlsconfig.Conn); ok {
		c = secure.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true // closed at this end
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		closed = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return closed || err != nil
}
