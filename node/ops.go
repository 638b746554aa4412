package node

import (
	"cqld/node/control"
)

// openControl opens the control port. A node works without it, so only a port that was configured and cannot be opened
// is an error.
func (n *Node) openControl() error {
	n.control = control.NewServer(n.log, n.operatorAuthorizer())
	n.control.Guard, n.control.Observe = n.guard, n.auditControl
	n.commands.Register(n.control)
	n.control.Page("/metrics", n.metrics.Page())
	if n.opts.ControlSocket {
		l, err := control.Listen(n.opts.DataDir)
		if err != nil {
			n.log.Warn("control socket not available", "err", err)
		} else {
			n.control.Serve(l, "")
		}
	}
	return n.openControlAddress()
}
