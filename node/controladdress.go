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
// With control_encryption_options, they must present a certificate as well.
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
	if certificate != nil {
		l = tls.NewListener(l, certificate.Server(o.Encryption.Control.Policy()))
	}
	server.Serve(l, token)
	return nil
}
