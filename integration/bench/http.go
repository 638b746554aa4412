package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// httpConn is an HTTP/1.1 connection with one request in flight. It parses only the status and the length of an answer.
// net/http would use several times the CPU time, which the servers need. A connection is closed and replaced after an
// error (tablesConn.again).
type httpConn struct {
	sock net.Conn
	in   *bufio.Reader
	// At most answerMax.
	body []byte // of the last answer; reused
}

// dialHTTP connects to host:port, without encryption. The buffer has room for a fourth of a page.
func dialHTTP(address string) (*httpConn, error) {
	sock, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &httpConn{sock: sock, in: bufio.NewReaderSize(sock, 256<<10)}, nil
}

// do sends an encoded request and reads the answer. The body is valid until the next call. An error leaves the
// connection in an undefined state. request is complete, with its body.
func (c *httpConn) do(request []byte) (status int, body []byte, err error) {
	if _, err := c.sock.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.line()
	if err != nil {
		return 0, nil, err
	}
	// "HTTP/1.1 200" has twelve bytes.
	if len(line) < 12 {
		return 0, nil, fmt.Errorf("bench: status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	length, chunked := 0, false
	// Without Content-Length and chunks, the body is empty, as after 204.
	for {
		line, err := c.line()
		if err != nil {
			return 0, nil, err
		}
		if len(line) == 0 {
			break
		}
		// Names of headers compare without case.
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, err
			}
		// The body has either a length or this encoding.
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	}
	c.body = c.body[:0]
	if !chunked {
		return status, c.body, c.take(length)
	}
	err = c.chunks()
	return status, c.body, err
}

// chunks reads a body in chunks, up to the empty one at its end. Trailers are not supported; none of the servers sends
// any. For example, abcd is:
//
//	4 CRLF abcd CRLF 0 CRLF CRLF
func (c *httpConn) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		// Extensions of a chunk follow the semicolon. The size is hexadecimal.
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return err
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		// Each chunk ends with a line end; the last one is followed by an empty trailer.
		if _, err := c.line(); err != nil || n == 0 {
			return err
		}
	}
}

// line returns the next line without its end. The bytes are valid until the next read.
func (c *httpConn) line() ([]byte, error) {
	b, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

// answerMax bounds an answer: a page has about a megabyte.
const answerMax = 64 << 20

// take appends the next n bytes to the body. It reads directly into the body, without a buffer between when n is large.
func (c *httpConn) take(n int) error {
	if n < 0 || len(c.body)+n > answerMax {
		return errors.New("bench: an answer of more than 64 MiB")
	}
	from := len(c.body)
	// The capacity is kept from answer to answer.
	c.body = append(c.body, make([]byte, n)...)
	_, err := io.ReadFull(c.in, c.body[from:])
	return err
}

// close ends the connection. An error of Close has no meaning for the measurement.
func (c *httpConn) close() { c.sock.Close() }
