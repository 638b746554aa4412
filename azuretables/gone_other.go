//go:build !linux

package azuretables

import "net"

// disconnected returns false: on this system, a request whose client has disconnected continues until its timeout.
func disconnected(net.Conn) bool { return false }
