package node

import (
	"crypto/tls"
	"fmt"
	"net"

	"cqld/node/config"
	"cqld/node/control"
	"cqld/tlsconfig"
)

// openControlAddress listens on control_address, if it is set. Clients must present the token of the data directory.
// With control_encryption_options, they must present a certificate as well. It returns an error if the token cannot be
// read or created, or if the address is in use. server closes the listener.
func openControlAddress(server *control.Server, o *config.Options, certificate *tlsconfig.Source) error {
	if !o.Listen.ControlAddress.IsValid() {
		return nil
	}
	// The token is created if the data directory has none.
	token, err := control.EnsureToken(o.DataDir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Listen.ControlAddress.String())
	if err != nil {
		return fmt.Errorf("node: listen for control: %w", err)
	}
	// The token is required in addition to a certificate: a certificate authority may also sign for other purposes.
	if certificate != nil {
		l = tls.NewListener(l, certificate.Server(o.Encryption.Control.Policy()))
	}
	server.Serve(l, token)
	return nil
}
