package azuretables

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/await"
	"cqld/internal/intake"
	"cqld/request"
)

func largeEntity(bytes int) string {
	var b strings.Builder
	b.WriteString(`{"PartitionKey":"p","RowKey":"large"`)
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, `,"p%d":"%s"`, i, strings.Repeat("x", 30<<10))
	}
	return b.String() + "}"
}

func TestLargeBodies(t *testing.T) {
	b := newBench(t, nil)
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	post := "POST /devstoreaccount1/races\nContent-Type: application/json\nPrefer: return-no-content\n\n"
	if resp, body := b.send(post + largeEntity(400<<10)); resp.StatusCode != 204 {
		t.Fatalf("an entity of 400 KiB: %d %s", resp.StatusCode, body)
	}
	if resp, body := b.send(post + largeEntity(3<<20)); resp.StatusCode != 400 ||
		!strings.Contains(body, "EntityTooLarge") {
		t.Errorf("an entity of 3 MiB: %d %s", resp.StatusCode, body)
	}
	if resp, _ := b.send(post + strings.Repeat(" ", 4<<20)); resp.StatusCode != 400 {
		t.Errorf("a body of 4 MiB: %d", resp.StatusCode)
	}
	if resp, _ := b.send(post + strings.Repeat(" ", 4<<20+1)); resp.StatusCode != 413 {
		t.Errorf("a body of 4 MiB and a byte: %d", resp.StatusCode)
	}
	if resp, body := b.send(post + strings.Repeat(" ", 40<<20)); resp.StatusCode != 413 ||
		!strings.Contains(body, "RequestBodyTooLarge") {
		t.Errorf("a body of 40 MiB: %d %s", resp.StatusCode, body)
	}
	if resp, _ := b.send("GET /devstoreaccount1/races(PartitionKey='p',RowKey='large')"); resp.StatusCode != 200 {
		t.Errorf("after refused requests: %d", resp.StatusCode)
	}
	if held, _ := b.server.carrier.large.Used(); held != 0 {
		t.Errorf("%d bytes of large bodies are still counted", held)
	}
}

func TestBodiesAreAsLargeAsEntitiesMayBe(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.Entity.EntityBytes = 14 << 20 })
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	resp, body := b.send("POST /devstoreaccount1/races\nContent-Type: application/json\nPrefer: " +
		"return-no-content\n\n" + largeEntity(6<<20))
	if resp.StatusCode != 204 {
		t.Errorf("an entity of 6 MiB of text where 14 MiB are allowed: %d %s", resp.StatusCode, body)
	}
}

// full reserves all memory for large bodies, so that further ones are refused. The returned function releases it.
func (b *bench) full() (end func()) {
	total := b.server.limits.BodyBytesTotal
	b.server.carrier.large = intake.New(intake.Limits{Bytes: total, WaitMax: 50 * time.Millisecond, Grace: time.Hour,
		RateMin: 1})
	held, err := b.server.carrier.large.Admit(total, true, func() {}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return held.End
}

func TestLargeBodiesTogetherAreBounded(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.BodyBytesTotal = 300 << 10 })
	end := b.full()
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	post := "POST /devstoreaccount1/races\nContent-Type: application/json\n\n"
	resp, body := b.send(post + largeEntity(200<<10))
	if resp.StatusCode != 503 || !strings.Contains(body, "ServerBusy") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	end()
	if resp, body := b.send(post + largeEntity(200<<10)); resp.StatusCode != 201 {
		t.Errorf("with memory: %d %s", resp.StatusCode, body)
	}
	// A body that never gets memory is too large, and the client must not repeat it.
	if resp, body := b.send(post + largeEntity(400<<10)); resp.StatusCode != 413 {
		t.Errorf("beyond the total: %d %s", resp.StatusCode, body)
	}
	if resp, _ := b.send("GET /devstoreaccount1/Tables"); resp.StatusCode != 200 {
		t.Errorf("the next request: %d", resp.StatusCode)
	}
	if held, _ := b.server.carrier.large.Used(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}

// TestRefusedBodiesAreLocated checks that requests whose body is not read are observed with their account, and that web
// pages of permitted origins can read the errors.
func TestRefusedBodiesAreLocated(t *testing.T) {
	var got Answer
	b := newBench(t, func(o *Options) {
		o.Accounts[0].Role = "racer"
		o.Answered = func(a Answer) {
			got = a
			got.Account, got.Table = strings.Clone(a.Account), strings.Clone(a.Table)
		}
	})
	if resp, body := b.send("PUT /devstoreaccount1/?restype=service&comp=properties\n\n" +
		"<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://race.example</AllowedOrigins>" +
		"<AllowedMethods>POST</AllowedMethods>" +
		"<AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>1</MaxAgeInSeconds></CorsRule></Cors>" +
		"</StorageServiceProperties>"); resp.StatusCode != 202 {
		t.Fatal(resp.StatusCode, body)
	}
	end := b.full()
	defer end()
	authorization := "Authorization: " + b.sign(DevelopmentAccount, "POST", "/devstoreaccount1/races",
		"application/json") + "\r\n"
	chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
	for _, c := range []struct {
		name, head, body string
		code             odata.Code
		role             string
	}{
		{"too large", authorization + "Content-Length: 4194305\r\n", strings.Repeat(" ", 4<<20+1),
			odata.RequestBodyTooLarge, ""},
		{"chunked", authorization + "Transfer-Encoding: chunked\r\n", chunk + "0\r\n\r\n", odata.ServerBusy, "racer"},
		{"unauthorized", "Transfer-Encoding: chunked\r\n", chunk + "0\r\n\r\n", odata.AuthenticationFailed, ""},
		{"ambiguous", authorization + "Content-Length: 2\r\nX Name: a\r\n", "{}", odata.InvalidHeaderValue, ""},
	} {
		resp, body := b.raw([]byte("POST /devstoreaccount1/races HTTP/1.1\r\nHost: localhost\r\nOrigin: "+
			"http://race.example\r\nContent-Type: application/json\r\nx-ms-date: "+b.date()+"\r\n"+c.head+"\r\n"+
			c.body), "POST")
		if got.Code != c.code || got.Account != DevelopmentAccount || got.Table != "races" || got.Role != c.role {
			t.Errorf("%s: %d %s, account %q, table %q, role %q", c.name, resp.StatusCode, got.Code, got.Account,
				got.Table, got.Role)
		}
		if origin := resp.Header.Get("Access-Control-Allow-Origin"); origin != "http://race.example" {
			t.Errorf("%s: %d, origin %q: %s", c.name, resp.StatusCode, origin, body)
		}
	}
}

func TestUnauthenticatedClientsGetNoMemory(t *testing.T) {
	b := newBench(t, nil)
	defer b.full()() // an authorized client gets ServerBusy
	resp, body := b.send("POST /devstoreaccount1/races\nAuthorization: SharedKey " +
		"devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" +
		"Content-Type: application/json\n\n" + largeEntity(3<<20))
	if resp.StatusCode != 403 || !strings.Contains(body, "AuthenticationFailed") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestChunkedBodies(t *testing.T) {
	// The length of a chunked body is unknown, so it gets the memory of the largest one.
	b := newBench(t, func(o *Options) { o.Limits.BodyBytesMax, o.Limits.BodyBytesTotal = 4<<20, 1<<20 })
	for _, size := range []int{10, 100 << 10} {
		name := fmt.Sprintf("races%d", size)
		body := `{"TableName":"` + name + `"}` + strings.Repeat(" ", size)
		head := "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\nAccept: " +
			"application/json\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nx-ms-date: " +
			b.date() + "\r\nAuthorization: " + b.sign(DevelopmentAccount, "POST", "/devstoreaccount1/Tables",
			"application/json") + "\r\n\r\n"
		resp, answer := b.raw([]byte(fmt.Sprintf("%s%x\r\n%s\r\n0\r\n\r\n", head, len(body), body)), "POST")
		if resp.StatusCode != 201 {
			t.Errorf("%d bytes: %d %s", size, resp.StatusCode, answer)
		}
		if resp, _ := b.send("GET /devstoreaccount1/Tables('" + name + "')"); resp.StatusCode != 200 {
			t.Errorf("the request after %d bytes: %d", size, resp.StatusCode)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	b := newBench(t, nil)
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, size := range []int{0, 100 << 10} {
		body := fmt.Sprintf(`{"TableName":"races%d"}`, size) + strings.Repeat(" ", size)
		fmt.Fprintf(c, "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\nAccept: "+
			"application/json\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"+
			"Content-Length: %d\r\nx-ms-date: %s\r\nAuthorization: %s\r\n\r\n", len(body), b.date(),
			b.sign(DevelopmentAccount, "POST", "/devstoreaccount1/Tables", "application/json"))
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		in.ReadString('\n')
		io.WriteString(c, body)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != 201 {
			t.Fatalf("got %v, %v", resp, err)
		}
		io.Copy(io.Discard, resp.Body)
	}
}

// TestExpectContinueOnReusedConnection checks that the server sends 100 Continue on a connection that was idle for
// longer than WriteTimeout.
func TestExpectContinueOnReusedConnection(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.WriteTimeout = time.Second })
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	time.Sleep(1100 * time.Millisecond)
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestLongFilters sends request lines of clients that name many entities in one $filter.
func TestLongFilters(t *testing.T) {
	b := newBench(t, nil)
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	b.send("PUT /devstoreaccount1/races(PartitionKey='p',RowKey='k7')\nContent-Type: application/json\n\n{}")
	for _, keys := range []int{15, 100, 400} {
		var terms []string
		for i := range keys {
			terms = append(terms, fmt.Sprintf("(PartitionKey eq 'p' and RowKey eq 'k%d')", i))
		}
		target := "/devstoreaccount1/races()?$filter=" + url.QueryEscape(strings.Join(terms, " or "))
		resp, body := b.send("GET " + target + "\n\n")
		if resp.StatusCode != 200 || strings.Count(body, `"RowKey":"k7"`) != 1 {
			t.Errorf("%d keys, %d bytes: %d %s", keys, len(target), resp.StatusCode, body)
		}
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"headers beyond the limit": {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", headerBytesMax) +
			"\r\n\r\n", 431},
		"no HTTP": {"hello\r\n\r\n", 400},
		"two lengths": {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: " +
			"6\r\n\r\nabcdef", 400},
	} {
		answers := make(chan Answer, 10)
		b := newBench(t, func(o *Options) { o.Answered = func(a Answer) { answers <- a } })
		resp, body := b.raw([]byte(c.request), "GET")
		if resp.StatusCode != c.status || !resp.Close {
			t.Errorf("%s: %d, closed %v: %s", name, resp.StatusCode, resp.Close, body)
		}
		// The observer is called before the response is written.
		if len(answers) != 1 {
			t.Fatalf("%s: %d answers were observed, want 1", name, len(answers))
		}
		a := <-answers
		if a.Status != c.status || a.Code == "" || a.Error == "" || a.Client.Addr().String() != "127.0.0.1" {
			t.Errorf("%s: observed %+v", name, a)
		}
	}
}

// TestConnectionsWithoutInputAreNotObserved opens connections that send nothing, until they time out or are closed.
func TestConnectionsWithoutInputAreNotObserved(t *testing.T) {
	answers := make(chan Answer, 10)
	b := newBench(t, func(o *Options) {
		o.Limits.NewcomerTimeout = 10 * time.Millisecond
		o.Answered = func(a Answer) { answers <- a }
	})
	for _, closes := range []bool{false, true} {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		if closes {
			c.Close()
			continue
		}
		// The response to a request that did not come in time precedes the end.
		if body, err := io.ReadAll(c); err != nil || !strings.Contains(string(body), " 408 ") {
			t.Errorf("%q, %v", body, err)
		}
		c.Close()
	}
	if len(answers) > 0 {
		t.Errorf("observed %+v", <-answers)
	}
}

// slow is a memory that responds only when it is released.
type slow struct {
	*inMemory
	entered, leave chan struct{}
}

func (s slow) Apply(r *request.Request, account, table string, ops []entity.Operation) ([]int64, error) {
	s.entered <- struct{}{}
	<-s.leave
	return s.inMemory.Apply(r, account, table, ops)
}

func TestDrainWaitsForRequestsUnderWayAndClosesIdleConnections(t *testing.T) {
	s := slow{newMemory(), make(chan struct{}), make(chan struct{})}
	b := newBench(t, func(o *Options) { o.Service = s })
	b.memory = s.inMemory
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	idle, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	answered := make(chan int, 1)
	go func() {
		resp, _ := b.send("PUT /devstoreaccount1/races(PartitionKey='p',RowKey='r')\nContent-Type: " +
			"application/json\n\n{}")
		answered <- resp.StatusCode
	}()
	<-s.entered
	drained := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		drained <- b.server.Drain(ctx)
	}()
	select {
	case err := <-drained:
		t.Fatalf("drained with a request under way: %v", err)
	case <-time.After(150 * time.Millisecond):
	}
	close(s.leave)
	if status := <-answered; status != 204 {
		t.Errorf("the request under way: %d", status)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if _, err := net.Dial("tcp", b.address); err == nil {
		t.Error("a drained server listens")
	}
	idle.SetReadDeadline(time.Now().Add(patience))
	if n, err := idle.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection of a drained server: %v", err)
	}
}

func TestServeAfterCloseRefusesConnections(t *testing.T) {
	b := newBenchWithoutListener(t)
	if err := b.server.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.server.Serve(l); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it listens")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.ConnectionsMax = 2 })
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range 3 {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		fmt.Fprintf(c, "GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: %s\r\nAuthorization: "+
			"%s\r\n\r\n",
			b.date(), b.sign(DevelopmentAccount, "GET", "/devstoreaccount1/Tables", ""))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(&bytes.Buffer{}, resp.Body)
		if (resp.StatusCode == 503) != (i == 2) {
			t.Errorf("connection %d of 2: %d", i+1, resp.StatusCode)
		}
	}
}

// connectUnknown opens connections that send no request, part of one, or only unauthorized ones.
func (b *bench) connectUnknown(n int) (conns []net.Conn) {
	for i := range n {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
		fmt.Fprint(c, []string{"", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
			"POST /devstoreaccount1/races HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"}[i%4])
	}
	return conns
}

// TestUnauthenticatedConnectionsDelayNoClient checks that 4,096 connections without an authorized request occupy few
// places. A client that waited for their places would wait for NewcomerTimeout, an hour.
func TestUnauthenticatedConnectionsDelayNoClient(t *testing.T) {
	b := newBench(t, nil)
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	b.connectUnknown(4096)
	if resp, _ := b.send("GET /devstoreaccount1/Tables"); resp.StatusCode != 200 {
		t.Errorf("a known connection: %d", resp.StatusCode)
	}
	b.conn.Close()
	b.conn = nil
	if resp, _ := b.send("GET /devstoreaccount1/Tables"); resp.StatusCode != 200 {
		t.Errorf("a new connection: %d", resp.StatusCode)
	}
}

// TestUnauthenticatedConnectionsEnd checks that such connections do not occupy their places for long.
func TestUnauthenticatedConnectionsEnd(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.NewcomerTimeout = 200 * time.Millisecond })
	for i, c := range b.connectUnknown(64) {
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("unknown connection %d stays", i)
		}
	}
}

// TestSlowBodiesAreAborted checks that stalled bodies release their memory when other requests need it.
func TestSlowBodiesAreAborted(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.BodyBytesTotal = 4 << 20 })
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	for range 4 {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /devstoreaccount1/races HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\nx-ms-date: %s\r\nAuthorization: %s\r\n\r\n",
			1<<20, b.date(), b.sign(DevelopmentAccount, "POST", "/devstoreaccount1/races", "application/json"))
		c.Write(bytes.Repeat([]byte(" "), 900<<10))
	}
	await.Until(t, "the slow bodies hold memory", func() bool {
		held, _ := b.server.carrier.large.Used()
		return held == 4<<20
	})
	post := "POST /devstoreaccount1/races\nContent-Type: application/json\nPrefer: return-no-content\n\n"
	if resp, _ := b.send("GET /devstoreaccount1/Tables"); resp.StatusCode != 200 {
		t.Errorf("a small request: %d", resp.StatusCode)
	}
	begun := time.Now()
	if resp, body := b.send(post + largeEntity(500<<10)); resp.StatusCode != 204 {
		t.Errorf("a large request: %d %s", resp.StatusCode, body)
	}
	t.Logf("a large request took %v", time.Since(begun))
}
