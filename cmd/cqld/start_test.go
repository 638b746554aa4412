package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Profiles are served for loopback addresses only, also if the name of another host resolves to one.
func TestProfilesCheckTheHost(t *testing.T) {
	h := loopbackOnly(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	for host, want := range map[string]int{
		"127.0.0.1:6060": 204, "127.0.0.1": 204, "localhost:6060": 204, "LOCALHOST": 204, "[::1]:6060": 204,
		"[::1]": 204, "127.9.9.9:1": 204,
		"evil.example:6060": 403, "evil.example": 403, "192.0.2.1:6060": 403, "": 403, "127.0.0.1.evil.example": 403,
		"localhost.evil.example:6060": 403,
		"[::]:6060":                   403, "0.0.0.0:6060": 403,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: "GET", Host: host})
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
