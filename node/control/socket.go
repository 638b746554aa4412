package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// SocketName is the name of the socket in a node's data directory.
const SocketName = "control.sock"

// Listen listens on the socket of a data directory, which only this process uses. It removes the socket of an earlier
// process. Only this user and root can connect: the mode of the file ensures it, and so does a check of each connection
// where the system reports the user. The directory must exist.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control: remove the socket of an earlier process: %w", err)
	}
	l, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	// Between listening and this call, the umask and the mode of the data directory protect the socket.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control: %w", err), l.Close())
	}
	return guarded{l, path}, nil
}

// pathTooLong returns an error that describes what to do if the path of the socket is too long.
func pathTooLong(path string) error {
	return fmt.Errorf("control: socket path %s has %d bytes, more than the %d allowed: use a shorter data "+
		"directory, or set control_address",
		path, len(path), socketPathMax)
}

// guarded accepts connections only of this user and of root. Other users' connections are closed without a response.
// Where the kernel reports no user (peer), known is false and the mode of the file is the only protection.
type guarded struct {
	net.Listener
	path string
}

// Accept implements net.Listener.
func (g guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, known := peer(c); !known || uid == 0 || uid == os.Geteuid() {
			return c, nil
		}
		c.Close()
	}
}

// Close implements net.Listener. It removes the file first, because the next process may already be waiting to listen.
func (g guarded) Close() error {
	return errors.Join(os.Remove(g.path), g.Listener.Close())
}

// raw calls f with the file descriptor of a connection. The descriptor is valid only during the call.
func raw(c net.Conn, f func(fd uintptr)) error {
	s, ok := c.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	r, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return r.Control(f)
}
