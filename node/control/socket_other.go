//go:build !linux

package control

import (
	"context"
	"fmt"
	"net"
)

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

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// peer reports that the user is unknown: on this system, only the mode of the file protects the socket.
func peer(net.Conn) (uid int, known bool) { return 0, false }
