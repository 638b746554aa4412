package guard

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestPanicIsLoggedOnceAndCounted(t *testing.T) {
	var out bytes.Buffer
	g := New(slog.New(slog.NewTextHandler(&out, nil)))
	err := g.Do("a test", func() { brokenRequest() })
	var panicked *PanicError
	if !errors.As(err, &panicked) || panicked.Where != "a test" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the client received the panic: %v", err)
	}
	if n := strings.Count(out.String(), "brokenRequest"); n != 1 || !strings.Contains(out.String(), "secret") {
		t.Errorf("the stack is logged %d times:\n%s", n, &out)
	}
	if got := g.Counts(); len(got) != 1 || got["a test"] != 1 {
		t.Errorf("counts %v", got)
	}
	if err := g.Do("a test", func() {}); err != nil {
		t.Errorf("without a panic: %v", err)
	}
}

//go:noinline
func brokenRequest() { panic("secret") }

func TestLogsOfManyPanicsAreBounded(t *testing.T) {
	var out bytes.Buffer
	g := New(slog.New(slog.NewTextHandler(&out, nil)))
	for range 2500 {
		_ = g.Do("a test", func() { panic("x") })
	}
	if n := strings.Count(out.String(), "level=ERROR"); n != stacksLogged+2 {
		t.Errorf("%d were logged", n)
	}
	if n := g.Counts()["a test"]; n != 2500 {
		t.Errorf("%d were counted", n)
	}
}

func TestWithoutAGuardAPanicGoesOn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	var g *Guard
	_ = g.Do("a test", func() { panic("x") })
}
