package tlsconfig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// checkFormat returns an error for files that are not PEM, with the command that converts them: users of Cassandra have
// Java keystores. what names the file.
func checkFormat(what string, b []byte) error {
	switch {
	case bytes.Contains(b, []byte("-----BEGIN ")):
		return nil
	// A file that is being written may be empty for a moment.
	case len(bytes.TrimSpace(b)) == 0:
		return fmt.Errorf("%s is empty", what)
	case bytes.HasPrefix(b, []byte{0xfe, 0xed, 0xfe, 0xed}), bytes.HasPrefix(b, []byte{0xce, 0xce, 0xce, 0xce}):
		return fmt.Errorf("%s is a Java keystore (JKS or JCEKS), and only PEM files are supported; convert it with "+
			"`keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12` and "+
			"`openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem`", what)
	// Both formats begin with an ASN.1 SEQUENCE.
	case b[0] == 0x30:
		return fmt.Errorf("%s is binary, such as a PKCS#12 keystore or DER, and only PEM files are supported; "+
			"convert it with "+
			"`openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem` or `openssl x509 -inform DER -in CERT.der -out "+
			"CERT.pem`", what)
	}
	return fmt.Errorf("%s has no PEM block", what)
}

// ParseCertificates returns the certificates in PEM text, in order, and ignores other blocks. It returns an error if
// there are none, or more than limit. what names the text in errors. In a chain's file, the certificate of this process
// comes first.
func ParseCertificates(what string, text []byte, limit int) ([]*x509.Certificate, error) {
	if err := checkFormat(what, text); err != nil {
		return nil, err
	}
	var list []*x509.Certificate
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
			continue
		}
		// Checked before parsing, which is the expensive part.
		if len(list) == limit {
			return nil, fmt.Errorf("%s has more than %d certificates", what, limit)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", what, len(list)+1, err)
		}
		// Configured certificates have the same limits as peers' certificates.
		if err := checkNames(c); err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", what, len(list)+1, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no CERTIFICATE block", what)
	}
	return list, nil
}

// ParseKey returns the first private key in PEM text. what names the text in errors, which never contain the key or the
// password. Other blocks are ignored, so a file may also contain certificates.
func ParseKey(what string, text []byte, password string) (crypto.Signer, error) {
	if err := checkFormat(what, text); err != nil {
		return nil, err
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("%s has no PRIVATE KEY block", what)
		}
		// Unsupported types are included, so that the message can name them.
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		key, err := parseKeyBlock(block, password)
		if err == nil {
			err = checkKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return key, nil
	}
}

var (
	errKeyEncrypted = errors.New("the private key is encrypted; set private_key_password")
	errKeyLegacy    = errors.New("the private key has PEM encryption, which is not supported because it is " +
		"insecure; convert it with " +
		"`openssl pkcs8 -topk8 -in KEY.pem -out NEW.pem`")
)

// parseKeyBlock parses one block. Errors must not contain its bytes or the password.
func parseKeyBlock(block *pem.Block, password string) (crypto.Signer, error) {
	if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return nil, errKeyLegacy
	}
	var key any
	var err error
	switch block.Type {
	// The types are PKCS#8, PKCS#1 and SEC 1.
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		key, err = decryptKey(block.Bytes, password)
	default:
		return nil, fmt.Errorf("%s is not supported; convert it with `openssl pkcs8 -topk8 -nocrypt -in KEY.pem "+
			"-out NEW.pem`", block.Type)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	return signer, nil
}

// checkKey refuses keys that TLS 1.2 and 1.3 clients do not accept.
func checkKey(key crypto.Signer) error {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < rsaBitsMin {
			return fmt.Errorf("an RSA key needs at least %d bits; this one has %d", rsaBitsMin, k.N.BitLen())
		}
	// All curves of crypto/ecdsa are accepted.
	case *ecdsa.PrivateKey, ed25519.PrivateKey:
	default:
		return fmt.Errorf("private keys of type %T are not supported; use RSA, ECDSA or Ed25519", key)
	}
	return nil
}

// checkNames limits the number of names in a certificate, because peers choose how many they present.
func checkNames(c *x509.Certificate) error {
	if n := len(c.DNSNames) + len(c.IPAddresses) + len(c.URIs) + len(c.EmailAddresses); n > namesMax {
		return fmt.Errorf("the certificate has %d names, and at most %d are supported", n, namesMax)
	}
	return nil
}

// loadPair reads the certificate and the private key of this process.
func loadPair(f Files) (*tls.Certificate, error) {
	keyText, err := read(f.PrivateKey, pemBytesMax, true)
	if err != nil {
		return nil, err
	}
	// Without a certificate file, the key's file contains the certificate.
	certificate, certText := f.Certificate, keyText
	if certificate == "" {
		certificate = f.PrivateKey
	} else if certText, err = read(certificate, pemBytesMax, false); err != nil {
		return nil, err
	}
	chain, err := ParseCertificates(describe(certificate), certText, chainMax)
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(describe(f.PrivateKey), keyText, f.PrivateKeyPassword)
	if err != nil {
		return nil, err
	}
	// All supported keys have Equal. The comparison detects files that were not replaced together.
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(chain[0].PublicKey) {
		return nil, fmt.Errorf("private key %s does not belong to the first certificate of %s", describe(f.PrivateKey),
			describe(certificate))
	}
	// With Leaf, crypto/tls need not parse the certificate for each connection.
	pair := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, nil
}
