package node

import (
	"crypto/tls"
	"fmt"
	"net"

	"go.yaml.in/yaml/v3"

	"cqld/node/control"
	"cqld/tlsconfig"
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
	if s := n.certificates.control; s != nil {
		l = tls.NewListener(l, s.Server(n.opts.ControlEncryption.policy()))
	}
	n.control.Serve(l, token)
	return nil
}

// setControlEncryption reads control_encryption_options.
func setControlEncryption(o *Options, v *yaml.Node) error {
	e := Encryption{line: v.Line, ClientAuth: tlsconfig.ClientAuthRequired}
	if err := e.read(v, encryptionSettings()); err != nil {
		return err
	}
	o.ControlEncryption = e
	return nil
}

// validateControl requires certificates of operators' clients: the control port can stop the node and read its state.
func (o *Options) validateControl(bad func(name, format string, args ...any)) {
	const name = "control_encryption_options"
	e := &o.ControlEncryption
	e.validate(name, bad)
	switch {
	case !e.used():
	case e.Optional:
		bad(name, "optional is not supported; set enabled")
	case e.ClientAuth != tlsconfig.ClientAuthRequired:
		bad(name, "require_client_auth must be true: clients of the control port present certificates, in addition to the token")
	}
}
