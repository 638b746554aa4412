package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// answers is a connection that returns a fixed text, whatever is written.
type answers struct {
	net.Conn
	io.Reader
}

func (a answers) Read(b []byte) (int, error)  { return a.Reader.Read(b) }
func (a answers) Write(b []byte) (int, error) { return len(b), nil }

func TestHTTPAnswers(t *testing.T) {
	text := "HTTP/1.1 204 No Content\r\nEtag: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 " +
		"404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n"
	for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		c := &httpConn{sock: answers{Reader: src}, in: bufio.NewReader(src)}
		for _, want := range []struct {
			status int
			body   string
		}{{204, ""}, {200, "hello"}, {404, "abcde"}} {
			status, body, err := c.do(nil)
			if err != nil || status != want.status || string(body) != want.body {
				t.Fatalf("%d %q %v, want %v", status, body, err, want)
			}
		}
		if _, _, err := c.do(nil); err != io.EOF {
			t.Errorf("after the last answer: %v", err)
		}
	}
	for _, bad := range []string{"x\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"} {
		src := strings.NewReader(bad)
		if _, _, err := (&httpConn{sock: answers{Reader: src}, in: bufio.NewReader(src)}).do(nil); err == nil {
			t.Errorf("%q is an answer", bad)
		}
	}
}
