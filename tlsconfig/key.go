package tlsconfig

import "errors"

// decryptKey decrypts an encrypted PKCS#8 key.
func decryptKey(der []byte, password string) (any, error) {
	if password == "" {
		return nil, errKeyEncrypted
	}
	return nil, errors.New("encrypted private keys are not supported yet; decrypt the key with `openssl pkcs8 -in KEY.pem -out NEW.pem`")
}
