package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// ErrStopped says that the node ended before it answered.
var ErrStopped = errors.New("the node stopped before it responded")

// Client asks one node for operations.
type Client struct {
	http  http.Client
	where string // for messages
	url   string
	token string
}

// DialSocket makes a client of the node with a control socket at path. It connects when it is asked.
func DialSocket(path string) *Client {
	c := &Client{where: path, url: "http://node"}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialUnix(ctx, path)
	}}
	return c
}

// DialAddress makes a client of the node whose control_address is address. It connects when it is
// asked.
func DialAddress(address, token string) *Client {
	// Without a proxy of the environment: the token is for the node alone.
	return &Client{where: address, url: "http://" + address, token: token, http: http.Client{Transport: &http.Transport{}}}
}

// Where is what the client was made for: the path of a socket or an address.
func (c *Client) Where() string { return c.where }

// call sends the arguments and reads the answer to its end.
func (c *Client) call(ctx context.Context, name string, args any, progress Report) (json.RawMessage, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/"+name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		switch dialed := !errors.As(err, &op) || op.Op != "dial"; {
		case !dialed:
			err = op.Err
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
		}
		return nil, fmt.Errorf("no node responds at %s: %w", c.where, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what was read of it will do
		return nil, fmt.Errorf("%s: %s", c.where, strings.TrimSpace(string(b)))
	}
	return c.read(resp.Body, progress)
}

func (c *Client) read(body io.Reader, progress Report) (json.RawMessage, error) {
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
	if err := lines.Err(); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", c.where, err)
	}
	return nil, fmt.Errorf("%s: %w", c.where, ErrStopped)
}

// Reachable tells whether somebody listens where the client would ask.
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
