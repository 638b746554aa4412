//go:build integration

package integration

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// TestRollingRestartsFailNoTablesRequest restarts each node of a ring under load from clients of Azure Tables that keep
// their connections and do not retry. Each writes and reads at all nodes in turn. Every second round drains the node
// before it stops it. One node is decommissioned at the end.
func TestRollingRestartsFailNoTablesRequest(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 5})
	a := askTables(t, ring)
	a.create("Rolling")
	var workers sync.WaitGroup
	var all []*tablesWorker
	stop := make(chan struct{})
	for i := range 8 {
		w := &tablesWorker{id: i, servers: ring.Servers, conns: map[*process.Server]*tablesConn{}}
		all = append(all, w)
		workers.Go(func() { w.run(stop) })
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for _, s := range ring.Servers {
			time.Sleep(rollingBetween / 2)
			if round%2 == 1 {
				mustCtl(t, s, "drain")
			}
			s.Stop()
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := ring.WaitAgreed(ringStart); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustCtl(t, ring.Servers[4], "decommission", "--force")
	time.Sleep(rollingBetween)
	close(stop)
	workers.Wait()
	answered, elsewhere, ended := int64(0), int64(0), int64(0)
	for _, w := range all {
		answered, elsewhere, ended = answered+w.answered.Load(), elsewhere+w.elsewhere, ended+w.ended
		for _, f := range w.failed {
			t.Error(f)
		}
	}
	t.Logf("%d requests were answered, %d went to another node because a node did not listen, %d connections ended "+
		"with an answer",
		answered, elsewhere, ended)
	if answered < 1000 || ended < int64(rounds*len(ring.Servers)) {
		t.Error("too few requests, or too few connections that ended with a response")
	}
}

// tablesWorker sends one request after the other over persistent connections, one to each node.
type tablesWorker struct {
	id        int
	servers   []*process.Server
	conns     map[*process.Server]*tablesConn
	answered  atomic.Int64
	elsewhere int64 // number of times that a node did not listen
	ended     int64 // connections that ended with an answer
	failed    []string
}

// tablesConn is a connection with its read buffer.
type tablesConn struct {
	net.Conn
	in *bufio.Reader
}

func (w *tablesWorker) run(stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		row := fmt.Sprint(i / 2)
		body := fmt.Sprintf(`{"PartitionKey":"w%d","RowKey":%q,"n":%d}`, w.id, row, i)
		method, path, want := "POST", "/Rolling", 204
		if i%2 == 1 {
			method, path, body, want = "GET", client.EntityPath("Rolling", fmt.Sprint("w", w.id), row), "", 200
		}
		s, c := w.connect(i)
		if c == nil {
			w.failed = append(w.failed, "no node listens")
			continue
		}
		resp, err := c.ask(s, method, path, body)
		if err == nil && resp.StatusCode != want {
			err = fmt.Errorf("status %s", resp.Status)
		}
		switch {
		case err != nil:
			w.failed = append(w.failed, fmt.Sprintf("%s at %s: %s %s: %v", time.Now().Format("15:04:05.000"),
				s.Address, method, path, err))
		default:
			w.answered.Add(1)
		}
		if err != nil || resp.Close {
			if err == nil {
				w.ended++
			}
			c.Close()
			delete(w.conns, s)
		}
	}
}

// connect returns a connection to the i-th node, or to the next one that listens. It does not use a connection that the
// server has ended, which clients detect before they send.
func (w *tablesWorker) connect(i int) (*process.Server, *tablesConn) {
	for range w.servers {
		s := w.servers[(w.id+i)%len(w.servers)]
		i++
		if c := w.conns[s]; c != nil {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
				return s, c
			}
			c.Close()
			delete(w.conns, s)
		}
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.Tables, "http://"), 5*time.Second)
		if err == nil {
			w.conns[s] = &tablesConn{c, bufio.NewReader(c)}
			return s, w.conns[s]
		}
		w.elsewhere++
	}
	return nil, nil
}

// ask sends one request and reads the answer.
func (c *tablesConn) ask(s *process.Server, method, path, body string) (*http.Response, error) {
	const account = azuretables.DevelopmentAccount
	key, err := base64.StdEncoding.DecodeString(azuretables.DevelopmentKey)
	if err != nil {
		return nil, err
	}
	target := "/" + account + path
	req, err := http.NewRequest(method, s.Tables+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	contentType := ""
	if body != "" {
		contentType = "application/json"
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Prefer", "return-no-content")
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2019-02-02")
	req.Header.Set("Accept", "application/json;odata=nometadata")
	req.Header.Set("Authorization", "SharedKey "+account+":"+client.Sign(key,
		client.StringToSign(method, contentType, date, account, target, "")))
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if err := req.Write(c); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}
