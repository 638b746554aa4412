package main

import (
	"log/slog"
	"net"
	"os"
)

// The states that systemd is notified of; see sd_notify(3).
const (
	stateReady    = "READY=1"
	stateStopping = "STOPPING=1"
)

// notify sends a state to the supervisor if the process is a systemd service of Type=notify. A failure is only logged:
// the node works without a supervisor. The environment variable is kept, because two states are sent. An address that
// starts with "@" is an abstract socket, whose name starts with a zero byte.
func notify(state string, log *slog.Logger) {
	// systemd sets the variable only for services that may notify it.
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		_ = c.Close() // the datagram is sent
	}
	if err != nil {
		log.Warn("systemd not notified", "state", state, "err", err)
	}
}
