package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"cqld/tlsconfig"
)

// cork makes the kernel hold written data until uncork or the end of the output, so that the last answers and the end
// reach the client together.
func cork(c net.Conn) { setCork(c, 1) }

// uncork sends the held data.
func uncork(c net.Conn) { setCork(c, 0) }

// setCork sets TCP_CORK of the socket.
func setCork(c net.Conn, on int) {
	control(c, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, on) // if it fails, the end follows the answers
	})
}

// unread reports whether the socket has unread input. It does not block.
func unread(c net.Conn) (more bool) {
	control(c, func(fd int) {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		more = err == nil && n > 0
	})
	return more
}

// control calls f with the descriptor of c, unless c is closed or not a socket.
func control(c net.Conn, f func(fd int)) {
	// TLS is above the socket. What it has read of a record is reported by Partial.
	if secure, ok := c.(*tlsconfig.Conn); ok {
		c = secure.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // fails if c is closed
		}
	}
}
