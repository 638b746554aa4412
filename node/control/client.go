package control

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// ErrStopped means that the node ended before it answered. The operation may have succeeded nevertheless;
// Progress.Committed shows it.
var ErrStopped = errors.New("the node stopped before it responded")

// ErrUnsupported means that the node does not have the operation or the page, because its version is another one.
var ErrUnsupported = errors.New("the node's version does not support this")

// Client sends operations to one node. It is safe for concurrent use. It has no timeout of its own, because repairs may
// run for hours. A call uses a connection of its own if others are busy; they are kept for later calls until the
// process ends.
type Client struct {
	http  http.Client
	where string // for messages
	// url is the beginning of all addresses. Over a socket, its host is only a placeholder.
	url string
	// token is sent as a bearer token; empty for the socket, whose mode authorizes the client.
	token string
}

// DialSocket returns a client of the node with a control socket at path. It connects at the first call. The path may be
// longer than the system's limit where dialUnix can shorten it.
func DialSocket(path string) *Client {
	c := &Client{where: path, url: "http://node"}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialUnix(ctx, path)
	}}
	return c
}

// DialAddress returns a client of the node whose control_address is address. It connects at the first call.
func DialAddress(address, token string) *Client {
	// The proxies of the environment are ignored, because only the node may receive the token.
	return &Client{where: address, url: "http://" + address, token: token,
		http: http.Client{Transport: &http.Transport{}}}
}

// DialTLS returns a client like DialAddress for a node with control_encryption_options. config must not be changed
// afterwards. config contains the authority of the node's certificate and, since the server requires it, a certificate
// of the client.
func DialTLS(address, token string, config *tls.Config) *Client {
	c := DialAddress(address, token)
	c.url, c.http.Transport = "https://"+address, &http.Transport{TLSClientConfig: config}
	return c
}

// Where returns the path of the socket or the address that the client connects to.
func (c *Client) Where() string { return c.where }

// call sends the arguments and reads the answer to its end. Errors of the operation are *Error. Every other error names
// the socket or the address.
func (c *Client) call(ctx context.Context, name string, args any, progress Report) (json.RawMessage, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/"+name, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp.Body, progress)
}

// send sends a request, and returns the response if its status is 200 OK. The caller must close the body.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		// A failed dial is reported without the URL, which for a socket would name a host that does not exist. A
		// connection that ended before the first byte of the response belongs to a process that has stopped.
		switch dialed := !errors.As(err, &op) || op.Op != "dial"; {
		case !dialed:
			err = op.Err
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
		}
		return nil, fmt.Errorf("no node responds at %s: %w", c.where, err)
	}
	// Refusals before the operation begins, such as a wrong token, are plain text with a status. The operation's own
	// errors arrive as a line.
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // a partial message is sufficient
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%s: %w: %s", c.where, ErrUnsupported, strings.TrimSpace(string(b)))
		}
		return nil, fmt.Errorf("%s: %s", c.where, strings.TrimSpace(string(b)))
	}
	return resp, nil
}

// read passes progress lines to progress and returns at the first result or error. The answer must end with one of the
// two: an answer that just ends comes from a node that has stopped.
func (c *Client) read(body io.Reader, progress Report) (json.RawMessage, error) {
	// The bound applies to one line. Progress lines are short, so only a result can reach it.
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), answerBytesMax)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: malformed response: %w", c.where, err)
		}
		switch {
		case l.Error != nil:
			return nil, l.Error
		case l.Result != nil:
			return l.Result, nil
		case l.Progress != nil && progress != nil:
			progress(*l.Progress)
		}
	}
	// A killed process does not end its chunked response properly.
	if err := lines.Err(); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", c.where, err)
	}
	return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
}

// Reachable reports whether a server listens at the client's socket. It is false for clients of addresses, whose
// transports have no DialContext.
func (c *Client) Reachable(ctx context.Context) bool {
	t, ok := c.http.Transport.(*http.Transport)
	if !ok || t.DialContext == nil {
		return false
	}
	conn, err := t.DialContext(ctx, "", "")
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Hold opens a connection that ends with the node's process, and returns a function that waits for this end. ctx bounds
// the wait, too. The result is nil when the process has ended. The caller must call ended, or end ctx. Nodes of older
// versions cannot report their end: the error is ErrUnsupported.
func (c *Client) Hold(ctx context.Context) (ended func() error, err error) {
	resp, err := c.send(ctx, http.MethodGet, processPage, nil)
	if err != nil {
		return nil, err
	}
	return func() error {
		defer resp.Body.Close()
		_, err := io.Copy(io.Discard, resp.Body)
		var network net.Error
		// A reset comes from a process that ended as well, but a timeout of the network from none.
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", c.where, ctx.Err())
		case errors.As(err, &network) && network.Timeout():
			return fmt.Errorf("%s: %w", c.where, err)
		}
		return nil
	}, nil
}
