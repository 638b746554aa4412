//go:build integration

package integration

import (
	"encoding/base64"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestStopDuringCompilations sends SIGTERM to a node that compiles WebAssembly while further compilations wait. A
// compilation cannot be interrupted, and must not keep the process.
func TestStopDuringCompilations(t *testing.T) {
	const clients = 8
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()),
		process.Options{Nodes: 1, YAML: []string{"user_defined_functions_enabled: true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	s := ring.Servers[0]
	if err := process.Ask(s.Address, probeTable(1)[0]); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	var once sync.Once
	for i := range clients {
		all.Go(func() { compileUntil(t, s.Address, i, stop, &once) })
	}
	end := func() { once.Do(func() { close(stop) }); all.Wait() }
	defer end()
	compiling := func() int64 { return serverMetric(t, s, "function_compiling") }
	for late := time.Now().Add(ringStart); compiling() == 0; time.Sleep(time.Millisecond) {
		select {
		case <-stop:
			t.FailNow() // a compilation was refused
		default:
		}
		if time.Now().After(late) {
			t.Fatal("nothing is compiled")
		}
	}
	stops(t, s)
}

// compileUntil creates functions until stop is closed or the node ends. It closes stop if the node refuses one.
func compileUntil(t *testing.T, address string, client int, stop chan struct{}, once *sync.Once) {
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Error(err)
		once.Do(func() { close(stop) })
		return
	}
	defer c.Close()
	c.Timeout = time.Minute
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		name := "f" + strconv.Itoa(client)
		module := wasmFunction(name, strings.Repeat("\x20\x00\x41\x01\x6a\x1a", 20_000+client*100+n))
		text := "CREATE OR REPLACE FUNCTION m." + name +
			" (x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE wasm AS '" +
			base64.StdEncoding.EncodeToString(module) + "'"
		a, err := c.Query(text, cqlclient.Options{})
		if err != nil {
			return
		}
		if a.Err != nil && a.Err.Code == 0x2200 {
			t.Error(a.Err)
			once.Do(func() { close(stop) })
			return
		}
	}
}
