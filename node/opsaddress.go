package node

import (
	"crypto/tls"
	"fmt"
	"net"

	"cqld/node/control"
)

// openControlAddress listens on control_address, if it is set. Clients must present the token of the data directory.
func (n *Node) openControlAddress() error {
	if !n.opts.ControlAddress.IsValid() {
		return nil
	}
	token, err := control.EnsureToken(n.opts.DataDir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", n.opts.ControlAddress.String())
	if err != nil {
		return fmt.Errorf("node: listen for control: %w", err)
	}
	if s := n.certificates.Control; s != nil {
		l = tls.NewListener(l, s.Server(n.opts.ControlEncryption.Policy()))
	}
	n.control.Serve(l, token)
	return nil
}
