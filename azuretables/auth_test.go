package azuretables

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"
	"time"
)

// hmacOf signs as clients do, independently of the server's code.
func hmacOf(a *account, s string) string {
	key, err := base64.StdEncoding.DecodeString(map[string]string{DevelopmentAccount: DevelopmentKey,
		"races": "cmFjZXMgcmFjZXMgcmFjZXMh"}[a.name])
	if err != nil {
		panic(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// TestDatesAreReadAsTheLibraryReadsThem compares parseDate with http.ParseTime for every second of two days of each
// month and for strings that resemble a date.
func TestDatesAreReadAsTheLibraryReadsThem(t *testing.T) {
	check := func(s string) {
		want, err := http.ParseTime(s)
		if got, ok := parseDate(s); ok != (err == nil) || ok && !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v, %v", s, got, ok, want, err)
		}
	}
	for at := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2030; at = at.Add(7*time.Hour +
		1861*time.Second) {
		check(at.Format(http.TimeFormat))
	}
	for _, s := range []string{"", "Wed, 26 May 2021 15:48:07 GMX", "Wed, 26 may 2021 15:48:07 GMT",
		"Wed, 26 anF 2021 15:48:07 GMT", "Wed, 00 May 2021 15:48:07 GMT",
		"Wed, 26 May 2021 24:48:07 GMT", "Wed, 26 May 2021 15:60:07 GMT", "Wed, 26 May 2021 15:48:60 GMT",
		"Wed, 26 May 2021 15:4x:07 GMT", "Wed, 31 Feb 2021 15:48:07 GMT",
		"Wednesday, 26-May-21 15:48:07 GMT", "Wed May 26 15:48:07 2021", "Wed, 26 May 2021 15:48:07 GMT "} {
		check(s)
	}
}

func TestVersionsAreReadAsTheLibraryReadsThem(t *testing.T) {
	check := func(s string) {
		_, err := time.Parse(time.DateOnly, s)
		if got := isVersion(s); got != (err == nil) {
			t.Errorf("%q: %v; want %v", s, got, err)
		}
	}
	for _, s := range []string{"", "2019-02-02", "0000-01-01", "2019-00-02", "2019-13-02", "2019-02-00", "2019-02-28",
		"2019-02-29", "2020-02-29", "2019-12-31", "2019-04-31",
		"2019-2-02", "2019-02-2 ", "2019/02/02", "2O19-02-02", "201x-02-02", "2019-x2-02", "2019-02-x2", "2019-02-02 ",
		"２019-02-02"} {
		check(s)
	}
	for at := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2030; at = at.AddDate(0, 0, 1) {
		check(at.Format(time.DateOnly))
	}
}
