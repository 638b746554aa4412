//go:build !linux

package server

import "net"

// cork does nothing on this system: the end of the output follows the last answers.
func cork(net.Conn) {}

// uncork does nothing on this system.
func uncork(net.Conn) {}

// unread returns false on this system: input that arrives at the last moment is detected only after the end.
func unread(net.Conn) bool { return false }
