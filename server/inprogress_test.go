package server

import (
	"strings"
	"sync/atomic"
	"testing"

	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

func noText([16]byte) string { return "" }

// TestTasksHaveNoSecrets checks the text of requests in progress.
func TestTasksHaveNoSecrets(t *testing.T) {
	textOf := func(id [16]byte) string {
		if id[0] == 1 {
			return "SELECT * FROM t WHERE k = ?"
		}
		return ""
	}
	for _, c := range []struct {
		task task
		want string
	}{
		{task{opcode: frame.OpQuery, text: "CREATE ROLE r WITH PASSWORD = 'secret'"},
			"QUERY CREATE ROLE r WITH PASSWORD = '*******'"},
		{task{opcode: frame.OpExecute, prepared: [16]byte{1}}, "EXECUTE SELECT * FROM t WHERE k = ?"},
		{task{opcode: frame.OpExecute, prepared: [16]byte{0xAB}}, "EXECUTE ab000000000000000000000000000000"},
		{task{opcode: frame.OpBatch, text: "DELETE FROM t WHERE k = 1", others: 2},
			"BATCH DELETE FROM t WHERE k = 1 and 2 more statements"},
		{task{opcode: frame.OpQuery, text: "USE " + strings.Repeat("x", taskBytesMax-5) + "é"}, "QUERY USE " +
			strings.Repeat("x", taskBytesMax-5)},
	} {
		if got := c.task.shown(textOf); got != c.want {
			t.Errorf("%+v is shown as %s, want %s", c.task, got, c.want)
		}
	}
}

// TestKill ends one of two requests of a connection. The client receives a typed error, the other request and later
// ones are executed.
func TestKill(t *testing.T) {
	release, running := make(chan struct{}), new(atomic.Int64)
	processor := &fake{query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result,
		error) {
		if !strings.HasPrefix(text, "SELECT") {
			return void()
		}
		running.Add(1)
		select {
		case <-release:
			return void()
		case <-r.Context.Done():
			return nil, r.Context.Err()
		}
	}}
	s, addr := start(t, Options{Processor: processor})
	c := connect(t, addr, frame.V5)
	c.send(1, "SELECT 1")
	c.send(2, "SELECT 2")
	eventually(t, "both requests are executed", func() bool {
		return running.Load() == 2 &&
			len(s.InProgress(noText)) == 2
	})
	ids := map[string]uint64{}
	for _, p := range s.InProgress(noText) {
		ids[p.Task] = p.ID
	}
	if !s.Kill(ids["QUERY SELECT 1"]) {
		t.Fatalf("%v is not being executed", ids)
	}
	h, e := c.readError()
	if h.Stream != 1 || e.Code != frame.CodeInvalid || !strings.Contains(e.Message, "was ended by an operator") {
		t.Errorf("stream %d receives %+v", h.Stream, e)
	}
	eventually(t, "only the other request is shown", func() bool { return len(s.InProgress(noText)) == 1 })
	if s.Kill(ids["QUERY SELECT 1"]) || s.Kill(0) || s.Killed() != 1 {
		t.Errorf("a request that has ended is killed; %d were", s.Killed())
	}
	close(release)
	if h, _ := c.read(); h.Stream != 2 || h.Opcode != frame.OpResult {
		t.Errorf("the other request receives %+v", h)
	}
	eventually(t, "no request is shown", func() bool { return len(s.InProgress(noText)) == 0 })
	c.works()
}

// TestKillAfterTheOutcome: a request that has an outcome in spite of the kill reports it.
func TestKillAfterTheOutcome(t *testing.T) {
	killed := make(chan struct{})
	running := new(atomic.Int64)
	processor := &fake{query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result,
		error) {
		if text == "WAIT" {
			running.Add(1)
			<-killed
			<-r.Context.Done()
		}
		return void()
	}}
	s, addr := start(t, Options{Processor: processor})
	c := connect(t, addr, frame.V4)
	c.send(1, "WAIT")
	eventually(t, "the request is executed", func() bool { return running.Load() == 1 })
	if !s.Kill(s.InProgress(noText)[0].ID) {
		t.Error("it is not being executed")
	}
	close(killed)
	if h, _ := c.read(); h.Opcode != frame.OpResult {
		t.Errorf("the client receives %+v", h)
	}
	c.works() // with a new context
}
