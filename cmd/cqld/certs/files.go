package certs

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// Modes of the files. Private keys are readable by their owner only. A directory that exists keeps its mode.
const (
	directoryMode = 0o700
	keyMode       = 0o600
	// Certificates are public: they are copied to clients and sent in each handshake.
	certMode = 0o644
)

// Names in the directory.
const (
	authorityName = "ca"
	certSuffix    = ".crt"
	keySuffix     = ".key"
)

// store is the directory with certificates. It has no state: each method reads the directory. If two commands run at
// the same time, both may pass check, and the last rename of each file wins.
type store struct {
	dir string
	// overwrite makes check accept existing files.
	overwrite bool
	authority authorityFiles
}

// authorityFiles are the files of the certificate authority; empty ones are in the directory.
type authorityFiles struct{ cert, key, password string }

// cert and key return the paths of a pair, which need not exist.
func (s *store) cert(name string) string { return filepath.Join(s.dir, name+certSuffix) }
func (s *store) key(name string) string  { return filepath.Join(s.dir, name+keySuffix) }

// authorityCert returns the path of the CA's certificate: the flag's, or ca.crt in the directory.
func (s *store) authorityCert() string {
	if s.authority.cert != "" {
		return s.authority.cert
	}
	return s.cert(authorityName)
}

// authorityKey returns the path of the CA's private key: the flag's, or ca.key in the directory.
func (s *store) authorityKey() string {
	if s.authority.key != "" {
		return s.authority.key
	}
	return s.key(authorityName)
}

// open returns the certificate authority. The errors name the command or the flags that help. The password is for
// encrypted keys and may be empty.
func (s *store) open(e authority.Environment) (*authority.Authority, error) {
	cert, err := os.ReadFile(s.authorityCert())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no certificate authority: %w; make one with `cqld certs init --dir %s`, or "+
			"set --ca-cert and --ca-key", err, s.dir)
	}
	if err != nil {
		return nil, err
	}
	// The CA exists, but its key may deliberately be kept on another machine.
	key, err := os.ReadFile(s.authorityKey())
	if err != nil {
		return nil, fmt.Errorf("private key of the certificate authority: %w", err)
	}
	return authority.Load(e, cert, key, s.authority.password)
}

// read returns a certificate of the directory and its key. Only the first certificate of the chain is returned: it is
// the certificate of the leaf. The key has no password, like all keys that this package writes.
func (s *store) read(certPath string) (*x509.Certificate, crypto.Signer, error) {
	text, err := os.ReadFile(certPath)
	if err != nil {
		return nil, nil, err
	}
	// Certificates of intermediate authorities may follow the first.
	chain, err := tlsconfig.ParseCertificates(certPath, text, chainMax)
	if err != nil {
		return nil, nil, err
	}
	keyPath := keyPathOf(certPath)
	// The key must exist even if it is replaced.
	if text, err = os.ReadFile(keyPath); err != nil {
		return nil, nil, err
	}
	key, err := tlsconfig.ParseKey(keyPath, text, "")
	return chain[0], key, err
}

// chainMax limits the number of certificates in a file, and so the cost of parsing a wrong file.
const chainMax = 16

// keyPathOf returns the file of the key that belongs to a certificate.
func keyPathOf(certPath string) string { return strings.TrimSuffix(certPath, certSuffix) + keySuffix }

// check returns an error if writing a pair would replace files. It uses Lstat, so a dangling symbolic link counts as
// existing.
func (s *store) check(name string) error {
	if s.overwrite {
		return nil
	}
	for _, path := range []string{s.cert(name), s.key(name)} {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists; set --overwrite to replace it, or use `cqld certs renew`", path)
		}
	}
	return nil
}

// write writes a pair as NAME.crt and NAME.key. The caller has checked that files may be replaced.
func (s *store) write(name string, p *authority.Pair) error {
	if err := os.MkdirAll(s.dir, directoryMode); err != nil {
		return err
	}
	return replacePair(s.cert(name), s.key(name), p)
}

// replacePair replaces both files, the key first. A running node that reads them in between keeps its previous pair,
// and reads them again later. A node that starts in between refuses the mismatched pair. If the process ends in
// between, the certificate must be issued again.
func replacePair(certPath, keyPath string, p *authority.Pair) error {
	key, err := p.KeyPEM()
	if err != nil {
		return err
	}
	if err := replace(keyPath, key, keyMode); err != nil {
		return err
	}
	return replace(certPath, p.CertificatePEM(), certMode)
}

// replace writes a file completely or not at all. Programs that have the old file open keep its content. A symbolic
// link itself is replaced, not its target. The directory is not synced, so a power failure may restore the old file.
func replace(path string, content []byte, mode os.FileMode) error {
	// In the same directory, so that the rename stays inside one file system. The leading dot hides it from renew.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	// The file is always closed; the first error is returned.
	_, err = f.Write(content)
	if err == nil {
		// The mode is set before the rename, so the file appears with its content and mode at the same time.
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
