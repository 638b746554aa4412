package config

import (
	"go.yaml.in/yaml/v3"

	"cqld/tlsconfig"
)

// setControlEncryption reads control_encryption_options. Clients of the control port must present certificates, so
// that is the default here.
func setControlEncryption(o *Options, v *yaml.Node) error {
	// The default is set before the options are read, so the file can override it and validateControl can refuse that.
	e := Encryption{line: v.Line, ClientAuth: tlsconfig.ClientAuthRequired}
	if err := e.read(v, encryptionSettings()); err != nil {
		return err
	}
	o.Encryption.Control = e
	return nil
}

// validateControl requires certificates of operators' clients: the control port can stop the node and read its state.
// The port is for operators only, so it never serves clients without a certificate. The token of the data directory is
// required in addition: a certificate alone does not authorize (node.openControlAddress).
func (o *Options) validateControl(bad func(name, format string, args ...any)) {
	const name = "control_encryption_options"
	e := &o.Encryption.Control
	e.validate(name, bad)
	switch {
	// Without TLS, the control port is limited to loopback addresses (validateAddresses).
	case !e.Used():
	case e.Optional:
		// Both would serve clients that do not identify themselves.
		bad(name, "optional is not supported; set enabled")
	case e.ClientAuth != tlsconfig.ClientAuthRequired:
		bad(name, "require_client_auth must be true: clients of the control port present certificates, in addition "+
			"to the token")
	}
}
