//go:build !linux

package control

import (
	"context"
	"fmt"
	"net"
)

// listenUnix listens on a socket. A path that is too long is an error, because these systems have no /proc.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > socketPathMax {
		return nil, pathTooLong(path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// dialUnix connects to a socket.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// peer reports that the user is unknown: on this system, only the mode of the file protects the socket.
func peer(net.Conn) (uid int, known bool) { return 0, false }
