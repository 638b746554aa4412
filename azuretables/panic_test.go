package azuretables

import (
	"bufio"
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/guard"
	"cqld/request"
)

// broken is a Service some of whose methods panic.
type broken struct{ *inMemory }

func (b broken) Query(*request.Request, string, string, *entity.Query) (*entity.Page, error) {
	var filter odata.Expr
	return nil, filter.(error) // as an invalid filter would
}

func (b broken) Apply(*request.Request, string, string, []entity.Operation) ([]int64, error) {
	panic("a change that panics")
}

func TestPanicEndsOnlyItsRequestAndConnection(t *testing.T) {
	var log bytes.Buffer
	g := guard.New(slog.New(slog.NewTextHandler(&log, nil)))
	b := newBench(t, func(o *Options) { o.Service, o.Guard = broken{newMemory()}, g })
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	bystander, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	resp, body := b.send("GET /devstoreaccount1/races()?$filter=a%20eq%201")
	if resp.StatusCode != 500 || !strings.Contains(body, "InternalError") || resp.Header.Get("x-ms-request-id") == "" {
		t.Errorf("the request: %d %s", resp.StatusCode, body)
	}
	if !resp.Close {
		t.Error("its connection stays open")
	}
	// With a large body, which is counted while it is in memory.
	resp, _ = b.send("POST /devstoreaccount1/races\nContent-Type: application/json\n\n" + largeEntity(100<<10))
	if resp.StatusCode != 500 {
		t.Errorf("the second request: %d", resp.StatusCode)
	}
	if held, _ := b.server.carrier.large.Used(); held != 0 {
		t.Errorf("%d bytes of large bodies are still counted", held)
	}
	b.conn, b.in = bystander, bufio.NewReader(bystander)
	if resp, _ := b.send("GET /devstoreaccount1/Tables"); resp.StatusCode != 200 {
		t.Errorf("another request: %d", resp.StatusCode)
	}
	if n := g.Counts()["Tables request"]; n != 2 {
		t.Errorf("%d were counted", n)
	}
	if n := strings.Count(log.String(), "broken.Query("); n != 1 {
		t.Errorf("the stack is logged %d times:\n%s", n, &log)
	}
}
