package table

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// hmacOf signs as clients do, with code of its own.
func hmacOf(a *account, s string) string {
	key, err := base64.StdEncoding.DecodeString(map[string]string{DevelopmentAccount: DevelopmentKey, "races": "cmFjZXMgcmFjZXMgcmFjZXMh"}[a.name])
	if err != nil {
		panic(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
