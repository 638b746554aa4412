package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/tlsconfig"
)

// Encryption is how a port uses TLS. In the file it has the form of Cassandra's client_encryption_options. The zero
// value means no TLS. Files are read when the node starts and again when they change (tlsconfig.Source); nothing here
// opens them.
type Encryption struct {
	Enabled bool // clients of the port must encrypt
	// Optional serves clients that do not encrypt as well.
	Optional   bool
	ClientAuth tlsconfig.ClientAuth // whether clients must present certificates
	Files      tlsconfig.Files
	// MinVersion, MaxVersion and CipherSuites are as in tlsconfig.Policy.
	MinVersion, MaxVersion uint16
	CipherSuites           []uint16
	// MaxValidity and MinValidity bound the certificates of clients: max_certificate_validity_period and
	// min_certificate_validity. Zero means no bound on the validity.
	MaxValidity, MinValidity time.Duration

	line int // of the file; 0 if not from a file
}

// Used reports whether the port has TLS at all. Optional alone accepts encrypted connections, too. Files of a section
// that is not used are not read, so a stock file with missing keystores is accepted.
func (e *Encryption) Used() bool { return e.Enabled || e.Optional }

// String describes the encryption for the log.
func (e *Encryption) String() string {
	switch {
	case e.Optional:
		return "optional"
	case e.Enabled:
		return "TLS"
	}
	return "none"
}

// Policy returns how servers use the files. The result is complete even if the port has no TLS.
func (e *Encryption) Policy() tlsconfig.Policy {
	return tlsconfig.Policy{ClientAuth: e.ClientAuth, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion,
		CipherSuites: e.CipherSuites,
		MaxValidity:  e.MaxValidity, MinValidity: e.MinValidity}
}

// secret reports whether the configuration itself contains secrets. The password of an unused key does not count,
// because every stock file of Cassandra contains one. A key in a file is not a secret of the configuration; a PEM text
// is one.
func (e *Encryption) secret(used bool) bool {
	// Whether the key is used decides about its password only.
	return strings.Contains(e.Files.PrivateKey, "-----BEGIN") || used && e.Files.PrivateKeyPassword != ""
}

// validate reports what is missing. It checks only what the configuration says: tlsconfig reads the files.
func (e *Encryption) validate(name string, bad func(name, format string, args ...any)) {
	// A configured but disabled port may be incomplete.
	if !e.Used() {
		return
	}
	if e.Files.PrivateKey == "" {
		bad(name, "TLS needs certificate and private_key; `cqld certs init` and `cqld certs node` make them")
	}
	// Without authorities, no certificate could be verified.
	if e.ClientAuth != tlsconfig.ClientAuthNone && e.Files.TrustedCertificates == "" {
		bad(name, "require_client_auth needs trusted_certificates, the authorities of the clients' certificates")
	}
	// A list that revokes nothing would look effective.
	if e.ClientAuth == tlsconfig.ClientAuthNone && len(e.Files.RevocationLists) > 0 {
		bad(name, "revocation_lists has no effect without require_client_auth")
	}
}

// encryptionSetting reads one of the options of an Encryption. It sets a field of an Encryption, because several ports
// have options of this form.
type encryptionSetting func(e *Encryption, v *yaml.Node) error

// encryptionSettings returns the options within client_encryption_options, as Cassandra 5 has them, and PEM files.
// Names that have no effect are here as well, so that a typing error is still found. Cassandra's keystore and
// truststore are Java formats. With store_type: PEM, which Cassandra has since 4.1 as a context factory, they are the
// names of PEM files.
func encryptionSettings() map[string]encryptionSetting {
	// Names of files are not checked here: the files are read later, and may appear until then.
	file := func(field func(*Encryption) *string) encryptionSetting {
		return func(e *Encryption, v *yaml.Node) error {
			s, err := scalar(v)
			if err == nil {
				*field(e) = s
			}
			return err
		}
	}
	key := func(e *Encryption) *string { return &e.Files.PrivateKey }
	password := func(e *Encryption) *string { return &e.Files.PrivateKeyPassword }
	trusted := func(e *Encryption) *string { return &e.Files.TrustedCertificates }
	return map[string]encryptionSetting{
		"enabled":              flag(func(e *Encryption) *bool { return &e.Enabled }),
		"optional":             flag(func(e *Encryption) *bool { return &e.Optional }),
		"require_client_auth":  setClientAuth,
		"certificate":          file(func(e *Encryption) *string { return &e.Files.Certificate }),
		"private_key":          file(key),
		"private_key_password": file(password),
		"trusted_certificates": file(trusted),
		"revocation_lists":     setRevocationLists,
		// Stores are PEM files: their contents are checked when they are read.
		"keystore":            file(key),
		"keystore_password":   file(password),
		"truststore":          file(trusted),
		"truststore_password": ignoredText,
		// Cassandra 6 reads passwords from files. The truststore's password has no effect here, so its file has none
		// either.
		"keystore_password_file":   refusePasswordFile,
		"truststore_password_file": ignoredText,
		"store_type":               setStoreType,
		"algorithm":                ignoredText,
		"protocol":                 setProtocol,
		"accepted_protocols":       setAcceptedProtocols,
		"cipher_suites":            setCipherSuites,
		"ssl_context_factory":      setContextFactory,

		"certificate_validity_warn_threshold": ignoredText,
		"require_endpoint_verification":       refuseHostCheck,

		"max_certificate_validity_period": validity(func(e *Encryption) *time.Duration { return &e.MaxValidity }),
		"min_certificate_validity":        validity(func(e *Encryption) *time.Duration { return &e.MinValidity }),
	}
}

// setEncryption reads an option of the form of client_encryption_options. The previous value is replaced, so an option
// of this kind is not merged.
func setEncryption(field func(*Options) *Encryption) setting {
	return func(o *Options, v *yaml.Node) error {
		e := Encryption{line: v.Line}
		if err := e.read(v, encryptionSettings()); err != nil {
			return err
		}
		*field(o) = e
		return nil
	}
}

// read reads a mapping of options. Unknown ones are errors. Errors name the line of the option, and the option. e may
// be changed in part after an error, so callers discard it then.
func (e *Encryption) read(v *yaml.Node, known map[string]encryptionSetting) error {
	if v.Kind != yaml.MappingNode {
		return errors.New("expected options such as enabled, certificate and private_key")
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		name, value := v.Content[i], v.Content[i+1]
		set, ok := known[name.Value]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("line %d: %s: %s", name.Line, name.Value, unknownName(name.Value, known)))
		// An option that occurs twice would leave one of the two values without effect.
		case seen[name.Value]:
			errs = append(errs, fmt.Errorf("line %d: %s: already set", name.Line, name.Value))
		default:
			// A setting may have changed e before it failed; the result is discarded.
			if err := set(e, value); err != nil {
				errs = append(errs, fmt.Errorf("line %d: %s: %w", name.Line, name.Value, err))
			}
		}
		seen[name.Value] = true
	}
	// All lines are reported at once, as in the file around them.
	return errors.Join(errs...)
}

// flag returns the setting of a truth value.
func flag(field func(*Encryption) *bool) encryptionSetting {
	return func(e *Encryption, v *yaml.Node) (err error) {
		*field(e), err = truthOf(v)
		return err
	}
}

// validity returns the setting of a validity period, which is a duration. It is not negative, because ParseDuration
// reads no sign.
func validity(field func(*Encryption) *time.Duration) encryptionSetting {
	return func(e *Encryption, v *yaml.Node) error {
		d, err := ParseDuration(v.Value)
		if err == nil {
			*field(e) = d
		}
		return err
	}
}

// ignoredText accepts a text without effect: PEM files of certificates have neither passwords nor algorithms. A
// store's type and algorithm mean nothing to a PEM file.
func ignoredText(_ *Encryption, v *yaml.Node) error {
	_, err := scalar(v)
	return err
}

// refusePasswordFile refuses a password in another file.
func refusePasswordFile(*Encryption, *yaml.Node) error {
	return errors.New("is not supported: write keystore_password, or use a key without password in a file that " +
		"others cannot read")
}

// refuseHostCheck refuses to compare the names in the certificates of clients with their addresses. The certificates
// of nodes are checked in this way, and the certificates of clients are not.
func refuseHostCheck(_ *Encryption, v *yaml.Node) error {
	// Only true is refused.
	if verify, err := truthOf(v); err != nil || !verify {
		return err
	}
	return errors.New("is not supported for clients: certificates of clients are not bound to addresses")
}

// setClientAuth reads whether clients must present certificates, may present them, or are not asked.
func setClientAuth(e *Encryption, v *yaml.Node) error {
	switch strings.ToLower(v.Value) {
	case "false":
		e.ClientAuth = tlsconfig.ClientAuthNone
	case "optional":
		e.ClientAuth = tlsconfig.ClientAuthOptional
	case "true":
		e.ClientAuth = tlsconfig.ClientAuthRequired
	default:
		return fmt.Errorf("%q is neither true, false nor optional", v.Value)
	}
	return nil
}

// setRevocationLists reads one file or several.
func setRevocationLists(e *Encryption, v *yaml.Node) error {
	list, err := texts(v)
	if err == nil {
		e.Files.RevocationLists = list
	}
	return err
}

// texts reads a list of texts, or one. The result is not nil, and empty for an empty list. A null element is an error.
func texts(v *yaml.Node) ([]string, error) {
	// One text is a list of one.
	nodes := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		nodes = v.Content
	}
	list := make([]string, 0, len(nodes))
	for _, n := range nodes {
		s, err := scalar(n)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// setStoreType accepts PEM, the only format that is supported.
func setStoreType(_ *Encryption, v *yaml.Node) error {
	if strings.EqualFold(v.Value, "PEM") {
		return nil
	}
	// The message contains the commands that convert a Java keystore.
	return fmt.Errorf("%q is not supported; set certificate, private_key and trusted_certificates to PEM files, which "+
		"`openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem` makes of a PKCS12 keystore, and "+
		"`keytool -importkeystore -srckeystore "+
		"STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12` makes that of a JKS keystore", v.Value)
}

// setProtocol reads the option of Cassandra, which names one protocol. For example protocol: TLSv1.3 accepts TLS 1.3
// only.
func setProtocol(e *Encryption, v *yaml.Node) error {
	// TLS names no version, and does not change the range.
	if strings.EqualFold(v.Value, "TLS") {
		return nil
	}
	// One version is a range of one.
	version, err := protocolVersion(v.Value)
	if err == nil {
		e.MinVersion, e.MaxVersion = version, version
	}
	return err
}

// setAcceptedProtocols reads the protocols that clients may use.
func setAcceptedProtocols(e *Encryption, v *yaml.Node) error {
	list, err := texts(v)
	if err != nil {
		return err
	}
	// The range is computed from the whole list. A version between two listed ones is accepted as well.
	e.MinVersion, e.MaxVersion = 0, 0
	for _, name := range list {
		version, err := protocolVersion(name)
		if err != nil {
			return err
		}
		// Zero is not a version, so it marks the first one of the list.
		if e.MinVersion == 0 || version < e.MinVersion {
			e.MinVersion = version
		}
		e.MaxVersion = max(e.MaxVersion, version)
	}
	return nil
}

// protocolVersion returns the version of a name. Older protocols are insecure and not supported. Names are compared
// without case. SSL and TLS up to 1.1 are errors.
func protocolVersion(name string) (uint16, error) {
	switch strings.ToUpper(name) {
	case "TLSV1.2":
		return tls.VersionTLS12, nil
	case "TLSV1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("%q is not supported; the protocols are TLSv1.2 and TLSv1.3", name)
}

// setCipherSuites reads the cipher suites of TLS 1.2. The cipher suites of TLS 1.3 may be listed, but all of them are
// always allowed. An empty list means the default suites of tlsconfig. Names are in the IANA registry's form, as Java
// and Go write them: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
func setCipherSuites(e *Encryption, v *yaml.Node) error {
	list, err := texts(v)
	if err != nil {
		return err
	}
	known := tlsconfig.SecureCipherSuites()
	// The list replaces the defaults and does not extend them.
	e.CipherSuites = nil
	for _, name := range list {
		id, ok := known[name]
		switch {
		// A suite of TLS 1.2 that is secure.
		case ok:
			e.CipherSuites = append(e.CipherSuites, id)
		// of TLS 1.3
		case slices.ContainsFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name }):
		// The error says that a suite is insecure if Go knows it as such.
		case slices.ContainsFunc(tls.InsecureCipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name }):
			return fmt.Errorf("%s is insecure and not supported", name)
		default:
			// The error lists the alternatives, in a fixed order.
			names := make([]string, 0, len(known))
			for n := range known {
				names = append(names, n)
			}
			slices.Sort(names)
			return fmt.Errorf("%q is not supported; the cipher suites are %s, and those of TLS 1.3", name,
				strings.Join(names, ", "))
		}
	}
	return nil
}

// setContextFactory reads the form of Cassandra's PEM files: a class with parameters. PEM files are the only stores
// that need no conversion.
func setContextFactory(e *Encryption, v *yaml.Node) error {
	var f struct {
		Class      string    `yaml:"class_name"`
		Parameters yaml.Node `yaml:"parameters"`
	}
	// Parameters are decoded later, because they have one of two forms.
	if err := v.Decode(&f); err != nil {
		return errors.New("expected class_name and parameters")
	}
	if !strings.HasSuffix(f.Class, "PEMBasedSslContextFactory") {
		return fmt.Errorf("class_name %q is not supported; it is "+
			"org.apache.cassandra.security.PEMBasedSslContextFactory", f.Class)
	}
	// A parameter of the class is called as the option beside it and means the same.
	parameters := &f.Parameters
	// Cassandra's form is a list of one map.
	if parameters.Kind == yaml.SequenceNode && len(parameters.Content) == 1 {
		parameters = parameters.Content[0]
	}
	// The class alone is valid: the files are then in the options themselves.
	if parameters.IsZero() {
		return nil
	}
	// The same settings as beside the class, so a PEM text and a file are read alike.
	all := encryptionSettings()
	known := map[string]encryptionSetting{}
	// Only these parameters; the others are options of the group.
	for _, name := range []string{"private_key", "private_key_password", "trusted_certificates"} {
		known[name] = all[name]
	}
	return e.read(parameters, known)
}

// setEncryptedPort refuses a second port for encrypted clients, which Cassandra 5 has deprecated.
// native_transport_port can serve both kinds of clients, which the message says.
func setEncryptedPort(*Options, *yaml.Node) error {
	return errors.New("a separate port for TLS is not supported; with client_encryption_options enabled and " +
		"optional, " +
		"native_transport_port serves clients with and without TLS")
}
