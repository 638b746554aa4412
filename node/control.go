package node

import (
	"cqld/node/control"
	"cqld/node/recorder"
)

// openControl opens the control port. A node works without it, so only a port that was configured and cannot be opened
// is an error.
func (n *Node) openControl() error {
	n.control = control.NewServer(n.log, n.operatorAuthorizer())
	n.control.Guard, n.control.Observe = n.guard, recorder.New(n.audit).Control
	// Metrics have the access rules of the control port: the token or the socket's directory protects them.
	n.commands.Register(n.control)
	n.control.Page("/metrics", n.metrics.Page())
	// A data directory of a test in memory has no socket.
	if n.opts.Listen.ControlSocket {
		l, err := control.Listen(n.opts.DataDir)
		// A socket that cannot be opened must not prevent the start.
		if err != nil {
			n.log.Warn("control socket not available", "err", err)
		} else {
			// The permissions of the directory protect the socket, so it needs no token.
			n.control.Serve(l, "")
		}
	}
	// Unlike the socket, an address is configured explicitly, so a failure to listen there prevents the start.
	return openControlAddress(n.control, &n.opts, n.certificates.Control)
}

// StopRequested is closed when an operator has asked the process to stop the node.
func (n *Node) StopRequested() <-chan struct{} { return n.stopRequested }
