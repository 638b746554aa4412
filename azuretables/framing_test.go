package azuretables

import (
	"crypto/md5" //nolint:gosec // the protocol's checksum
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// Requests that a proxy may understand in another way are refused, and their connection ends, so that what follows is
// not read as a request.
func TestAmbiguousHeadersAreRefused(t *testing.T) {
	b := newBench(t, nil)
	const body = `{"TableName":"races"}`
	send := func(lines string) (int, string) {
		head := "POST /devstoreaccount1/Tables HTTP/1.1\r\n" + lines +
			"Accept: application/json\r\nContent-Type: application/json\r\nx-ms-date: " +
			b.date() + "\r\nAuthorization: " + b.sign(DevelopmentAccount, "POST", "/devstoreaccount1/Tables",
			"application/json") + "\r\n\r\n"
		resp, answer := b.raw([]byte(head+body), "POST")
		return resp.StatusCode, answer
	}
	const host, length = "Host: localhost\r\n", "Content-Length: 21\r\n"
	for _, lines := range []string{
		host + "Content-Length : 21\r\n", host + "Content-Length\t: 21\r\n", host + length + "Content-Length: 21\r\n",
		host + host + length, host + "Host: other\r\n" + length, "Host : localhost\r\n" + host + length, host +
			length + "host: localhost\r\n",
		host + length + "Transfer-Encoding: chunked\r\n", host +
			"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		host + length + "Transfer-Encoding : chunked\r\n", host + length + "X-Folded: a\r\n b\r\n", host + length +
			"X Name: a\r\n",
		host + length + ": a\r\n", host + "Content-Length: +21\r\n", host + "Content-Length: 2 1\r\n", host +
			"Content-Length: 0x15\r\n",
	} {
		if status, answer := send(lines); status != 400 {
			t.Errorf("%q: %d %s", lines, status, answer)
		}
	}
	if status, answer := send(host + length); status != 201 {
		t.Errorf("%d %s", status, answer)
	}
}

// Content-MD5 is compared with the body, with the codes and messages of Azure Storage.
func TestContentMD5IsCompared(t *testing.T) {
	b := newBench(t, nil)
	sum := func(body string) string {
		s := md5.Sum([]byte(body)) //nolint:gosec // see above
		return base64.StdEncoding.EncodeToString(s[:])
	}
	for i, c := range []struct {
		md5    func(body string) string
		status int
		code   string
	}{
		{sum, 201, ""},
		{func(string) string { return sum("other") }, 400, "Md5Mismatch"},
		{func(string) string { return "abc" }, 400, "InvalidMd5"},
		{func(string) string { return "YWJj" }, 400, "InvalidMd5"},
	} {
		for _, size := range []int{0, 200 << 10} {
			body := fmt.Sprintf(`{"TableName":"races%d"}`, i*2+min(size, 1)) + strings.Repeat(" ", size)
			signed := "POST\n" + c.md5(body) + "\napplication/json\n" + b.date() +
				"\n/devstoreaccount1/devstoreaccount1/Tables"
			resp, answer := b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\nx-ms-date: " +
				b.date() + "\nContent-MD5: " + c.md5(body) +
				"\nAuthorization: SharedKey devstoreaccount1:" + b.hmac(DevelopmentAccount, signed) + "\n\n" + body)
			if resp.StatusCode != c.status || !strings.Contains(answer, c.code) {
				t.Errorf("case %d, %d bytes: %d %s, want %d %s", i, size, resp.StatusCode, answer, c.status, c.code)
			}
		}
	}
}
