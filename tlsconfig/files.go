package tlsconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Files names the files of a Source. Each value is a path, or PEM text itself if it contains "-----BEGIN". It must not
// change while a Source uses it.
type Files struct {
	// Certificate has the certificate of this process, followed by those of intermediate authorities. If it is empty,
	// the file of the private key contains them as well.
	Certificate string
	// PrivateKey has the key of Certificate: PKCS#8, PKCS#1 or SEC 1. Only the user that runs the process may be able
	// to read the file, and a group if the file belongs to root.
	PrivateKey string
	// PrivateKeyPassword decrypts a PKCS#8 key. "" means that the key is not encrypted.
	PrivateKeyPassword string
	// TrustedCertificates has the authorities whose certificates peers may present. "" means none: a server then cannot
	// verify client certificates, and clients trust the authorities of the operating system.
	TrustedCertificates string
	// RevocationLists are the certificate revocation lists (CRLs) of trusted authorities, as PEM or DER.
	RevocationLists []string
}

// paths returns the files to be watched. Inline PEM text cannot change.
func (f Files) paths() []string {
	var paths []string
	for _, p := range append([]string{f.Certificate, f.PrivateKey, f.TrustedCertificates}, f.RevocationLists...) {
		if p != "" && !inline(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// inline reports whether the value is PEM text instead of a path.
func inline(value string) bool { return strings.Contains(value, "-----BEGIN") }

// describe returns the value for messages. Messages must not contain inline text, which may be a private key.
func describe(value string) string {
	if inline(value) {
		return "inline PEM"
	}
	return value
}

// read returns the bytes of a value, which are at most limit. If secret is true or the file has a private key, other
// users must not be able to read it. The check is of the opened file, so that a replacement between the check and the
// read has no effect.
func read(value string, limit int64, secret bool) ([]byte, error) {
	if inline(value) {
		return []byte(value), nil
	}
	f, err := os.Open(value)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// A device or pipe could block, or never end.
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", value)
	}
	// One byte more than the limit shows that the file is larger, without reading it all.
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	// Users also put the key into the file of the certificate.
	if secret || bytes.Contains(b, []byte("PRIVATE KEY-----")) {
		if err := CheckPrivate(value, "a private key", info); err != nil {
			return nil, err
		}
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", value, limit)
	}
	return b, nil
}

// CheckPrivate returns an error if users other than the owner can read or change a file with secrets. A group may read
// the files of root: this is how packages and orchestrators hand keys to the user of a service. secrets names what the
// file contains. There is no error on systems where modes do not restrict access.
func CheckPrivate(path, secrets string, info os.FileInfo) error {
	mode := info.Mode().Perm()
	// All other bits of the mode must be zero.
	allowed := os.FileMode(0o700)
	if ownedByRoot(info) {
		allowed = 0o740
	}
	if !modesRestrict || mode&^allowed == 0 {
		return nil
	}
	return fmt.Errorf("%s contains %s and has mode %04o, so other users may read or change it; run chmod 600 %s", path,
		secrets, mode, path)
}

// signature identifies the contents of watched files without reading them.
type signature []os.FileInfo // nil for a file that does not exist

// newSignature examines the files at paths. The element of a file that cannot be examined is nil, and load reports why.
func newSignature(paths []string) signature {
	s := make(signature, len(paths))
	for i, p := range paths {
		// Stat follows symbolic links: orchestrators replace a link and not the file.
		if info, err := os.Stat(p); err == nil {
			s[i] = info
		} else if !errors.Is(err, os.ErrNotExist) {
			s[i] = nil // loading reports the error
		}
	}
	return s
}

// equal reports whether no file has changed between two signatures of the same paths. A file that was replaced by
// another of the same size and time is a different file (os.SameFile).
func (s signature) equal(other signature) bool {
	for i, a := range s {
		b := other[i]
		// A file that appears or disappears is a change.
		if a == nil || b == nil {
			if a != b {
				return false
			}
			continue
		}
		if a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime()) || a.Mode() != b.Mode() || !os.SameFile(a, b) {
			return false
		}
	}
	return true
}
