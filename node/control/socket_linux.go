package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// short calls f with a short path of the same socket, which goes through the directory's file descriptor. The path is
// unchanged if it is short enough. The short path is valid only during the call.
func short(path string, f func(path string) error) error {
	if len(path) <= socketPathMax {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(path) > socketPathMax {
		return pathTooLong(path)
	}
	return f(path)
}

// listenUnix listens on a socket at a path of any length.
func listenUnix(path string) (l net.Listener, err error) {
	err = short(path, func(p string) error {
		u, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
		if err != nil {
			return fmt.Errorf("control: %w", err)
		}
		u.SetUnlinkOnClose(false) // p may be invalid by then; the next Listen removes the file
		l = u
		return nil
	})
	return l, err
}

// dialUnix connects to a socket at a path of any length.
func dialUnix(ctx context.Context, path string) (c net.Conn, err error) {
	err = short(path, func(p string) error {
		c, err = new(net.Dialer).DialContext(ctx, "unix", p)
		return err
	})
	return c, err
}

// peer returns the user id of the client. The kernel has recorded it when the client connected.
func peer(c net.Conn) (uid int, known bool) {
	err := raw(c, func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, known = int(cred.Uid), true
		}
	})
	return uid, known && err == nil
}
