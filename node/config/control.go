package config

import (
	"go.yaml.in/yaml/v3"

	"cqld/tlsconfig"
)

// setControlEncryption reads control_encryption_options.
func setControlEncryption(o *Options, v *yaml.Node) error {
	e := Encryption{line: v.Line, ClientAuth: tlsconfig.ClientAuthRequired}
	if err := e.read(v, encryptionSettings()); err != nil {
		return err
	}
	o.Encryption.Control = e
	return nil
}

// validateControl requires certificates of operators' clients: the control port can stop the node and read its state.
func (o *Options) validateControl(bad func(name, format string, args ...any)) {
	const name = "control_encryption_options"
	e := &o.Encryption.Control
	e.validate(name, bad)
	switch {
	case !e.Used():
	case e.Optional:
		bad(name, "optional is not supported; set enabled")
	case e.ClientAuth != tlsconfig.ClientAuthRequired:
		bad(name, "require_client_auth must be true: clients of the control port present certificates, in addition "+
			"to the token")
	}
}
