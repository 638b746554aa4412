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
	// Certificate contains the certificate of this process, followed by intermediate certificates. If it is empty, the
	// private key's file contains them as well.
	Certificate string
	// PrivateKey has the key of Certificate: PKCS#8, PKCS#1 or SEC 1. Only the user that runs the process may be able
	// to read the file, and a group if the file belongs to root.
	PrivateKey string
	// PrivateKeyPassword decrypts a PKCS#8 key. "" means that the key is not encrypted.
	PrivateKeyPassword string
	// TrustedCertificates contains the authorities that may sign peers' certificates. "" means none: a server then
	// cannot verify client certificates, and clients trust the operating system's authorities.
	TrustedCertificates string
	// RevocationLists are the certificate revocation lists (CRLs) of trusted authorities, as PEM or DER.
	RevocationLists []string
}

// paths returns the files to watch. Inline PEM text cannot change.
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

// describe formats the value for messages, which must not contain inline text, because it may be a private key.
func describe(value string) string {
	if inline(value) {
		return "inline PEM"
	}
	return value
}

// read returns the content of a value, at most limit bytes. If secret is true, or the file contains a private key,
// other users must not be able to read the file. The opened file is checked, so replacing it between check and read has
// no effect.
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
	// Reading one byte beyond the limit detects a larger file without reading all of it.
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	// The certificate's file may contain the key as well.
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

// CheckPrivate returns an error if users other than the owner can read or change a file with secrets. A file that
// belongs to root may be readable by a group, because packages and orchestrators pass keys to a service's user that
// way. secrets names the content in the message. On systems where file modes do not restrict access, it returns nil.
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

// signature identifies the content of watched files without reading it.
type signature []os.FileInfo // nil for a file that does not exist

// newSignature examines the files at paths. The element of a file that cannot be examined is nil; load reports the
// error.
func newSignature(paths []string) signature {
	s := make(signature, len(paths))
	for i, p := range paths {
		// Stat follows symbolic links, because orchestrators replace a link instead of the file.
		if info, err := os.Stat(p); err == nil {
			s[i] = info
		} else if !errors.Is(err, os.ErrNotExist) {
			s[i] = nil // loading reports the error
		}
	}
	return s
}

// equal reports whether no file has changed between two signatures of the same paths. A replacement with the same size
// and time is detected as another file (os.SameFile).
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
