package tlsconfig

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Encrypted private keys are EncryptedPrivateKeyInfo of PKCS#8 (RFC 5958) with PBES2 and PBKDF2 (RFC 8018 sections 5.2
// and 6.2), as `openssl pkcs8 -topk8` and `openssl genpkey -aes256` write them.

// encryptedKey is EncryptedPrivateKeyInfo (RFC 5958 section 3).
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

// pbes2Parameters is PBES2-params (RFC 8018 appendix A.4).
type pbes2Parameters struct {
	Derivation pkix.AlgorithmIdentifier
	Scheme     pkix.AlgorithmIdentifier
}

// pbkdf2Parameters is PBKDF2-params (RFC 8018 appendix A.2). A salt from another source is not supported. An absent PRF
// means HMAC-SHA-1, and an absent KeyLength the length of the cipher's key.
type pbkdf2Parameters struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

// iterationsMax bounds the time of the key derivation to some seconds. OpenSSL uses 2,048, and current recommendations
// are below a million.
const iterationsMax = 10_000_000

var (
	errPassword   = errors.New("private_key_password does not decrypt the private key")
	errEncryption = errors.New("the encryption of the private key is not supported; convert it with " +
		"`openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY.pem -out NEW.pem`")
)

// decryptKey decrypts and parses an encrypted PKCS#8 key. Errors are errKeyEncrypted without a password, errPassword
// with a wrong one, errEncryption for an algorithm that is not supported, and others for a malformed key.
func decryptKey(der []byte, password string) (any, error) {
	if password == "" {
		return nil, errKeyEncrypted
	}
	var k encryptedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 {
		return nil, errors.New("the encrypted private key is malformed")
	}
	if !k.Algorithm.Algorithm.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}) { // PBES2
		return nil, errEncryption
	}
	var p pbes2Parameters
	if _, err := asn1.Unmarshal(k.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, errEncryption
	}
	// Takes up to some seconds, depending on the number of iterations.
	block, iv, err := p.cipher(password)
	if err != nil {
		return nil, err
	}
	plain, err := decryptCBC(block, iv, k.Data)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, errPassword // a wrong password can result in valid padding by chance
	}
	return key, nil
}

// cipher derives the key, and returns the cipher with its initialization vector. It validates everything from the file
// before use: the iterations, and the lengths of the key and of the vector.
func (p *pbes2Parameters) cipher(password string) (block cipher.Block, iv []byte, err error) {
	scheme, ok := cipherOf(p.Scheme.Algorithm)
	if !ok || !p.Derivation.Algorithm.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}) { // PBKDF2
		return nil, nil, errEncryption
	}
	var d pbkdf2Parameters
	if _, err := asn1.Unmarshal(p.Derivation.Parameters.FullBytes, &d); err != nil {
		return nil, nil, errEncryption
	}
	hash, ok := hashOf(d.PRF.Algorithm)
	if !ok || d.Iterations < 1 || d.KeyLength != 0 && d.KeyLength != scheme.keyBytes {
		return nil, nil, errEncryption
	}
	// The iterations come from the file, so they are checked before the derivation.
	if d.Iterations > iterationsMax {
		return nil, nil, fmt.Errorf("the encryption of the private key has %d iterations, and at most %d are "+
			"supported", d.Iterations, iterationsMax)
	}
	if _, err := asn1.Unmarshal(p.Scheme.Parameters.FullBytes, &iv); err != nil {
		return nil, nil, errEncryption
	}
	key, err := pbkdf2.Key(hash, password, d.Salt, d.Iterations, scheme.keyBytes)
	if err != nil {
		return nil, nil, err
	}
	if block, err = scheme.open(key); err != nil {
		return nil, nil, err
	}
	// cipher.NewCBCDecrypter would panic.
	if len(iv) != block.BlockSize() {
		return nil, nil, errEncryption
	}
	return block, iv, nil
}

// keyCipher is a block cipher in CBC mode. keyBytes is the length of its key.
type keyCipher struct {
	keyBytes int
	open     func([]byte) (cipher.Block, error)
}

// cipherOf returns the cipher with an object identifier: AES-128, AES-192 and AES-256, and Triple DES, all in CBC mode.
func cipherOf(id asn1.ObjectIdentifier) (c keyCipher, ok bool) {
	switch id.String() {
	case "2.16.840.1.101.3.4.1.2":
		return keyCipher{16, aes.NewCipher}, true
	case "2.16.840.1.101.3.4.1.22":
		return keyCipher{24, aes.NewCipher}, true
	case "2.16.840.1.101.3.4.1.42":
		return keyCipher{32, aes.NewCipher}, true
	case "1.2.840.113549.3.7": // written by OpenSSL 1.0
		return keyCipher{24, des.NewTripleDESCipher}, true
	}
	return c, false
}

// hashOf returns the hash of the HMAC that PBKDF2 uses. The empty identifier is the default of PBKDF2.
func hashOf(id asn1.ObjectIdentifier) (h func() hash.Hash, ok bool) {
	switch id.String() {
	case "", "1.2.840.113549.2.7":
		return sha1.New, true
	case "1.2.840.113549.2.9":
		return sha256.New, true
	case "1.2.840.113549.2.10":
		return sha512.New384, true
	case "1.2.840.113549.2.11":
		return sha512.New, true
	}
	return nil, false
}

// decryptCBC decrypts data and removes its padding (RFC 8018 section 6.1.1). The padding is not authenticated: a wrong
// password is detected by it or, with a small probability, only when the key is parsed. data is not modified.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted private key is malformed")
	}
	plain := slices.Clone(data)
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, plain)
	// Each byte of the padding is its length.
	n := int(plain[len(plain)-1])
	if n < 1 || n > size {
		return nil, errPassword
	}
	for _, b := range plain[len(plain)-n:] {
		if int(b) != n {
			return nil, errPassword
		}
	}
	return plain[:len(plain)-n], nil
}
