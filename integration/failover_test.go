//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"cqld/integration/process"
)

// detection is how long after a node's death the others must have detected it; requests to it may fail until then.
const detection = 2 * time.Second

// load is one driver's running program, and its output.
type load struct {
	driver
	installed error
	mu        sync.Mutex // guards events while the program runs
	events    []event
	err       error
}

// TestFailover kills a node under load from every driver, and starts it again. Requests at QUORUM may fail only before
// the failure detector marks the node down, and every acknowledged write must exist.
func TestFailover(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	ring := startRing(t, process.Options{Nodes: 4})
	var loads []*load
	var ready, ended sync.WaitGroup
	stop := make(chan struct{})
	for _, d := range drivers(root) {
		l := &load{driver: d, installed: d.installed()}
		loads = append(loads, l)
		if l.installed == nil {
			ready.Add(1)
			ended.Go(func() {
				l.run(root, "failover", servers{ring.Addresses(), 4, 4}, sync.OnceFunc(ready.Done),
					stop)
			})
		}
	}
	ready.Wait()
	time.Sleep(time.Second)
	killed := time.Now()
	ring.Servers[1].Kill()
	time.Sleep(detection + 4*time.Second)
	restarted := time.Now()
	if err := ring.Servers[1].Start(); err != nil {
		t.Error(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Error(err)
	}
	t.Logf("the node was dead for %v and agreed %v after its start", restarted.Sub(killed), time.Since(restarted))
	time.Sleep(3 * time.Second)
	close(stop)
	ended.Wait()
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judge(t, killed) })
	}
}

// run executes the program until it is stopped and has read its writes back.
func (l *load) run(root, program string, s servers, ready func(), stop <-chan struct{}) {
	defer ready()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := l.command(ctx, root, program, s)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		l.err = fmt.Errorf("%v %v", err1, err2)
		return
	}
	if l.err = cmd.Start(); l.err != nil {
		return
	}
	go func() {
		<-stop
		in.Close()
	}()
	events := make(chan event, 1024)
	go follow(out, events)
	for e := range events {
		if e.kind == "ready" {
			ready()
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		l.mu.Unlock()
	}
	if err := cmd.Wait(); err != nil {
		l.err = fmt.Errorf("%w\n%s", err, complaints.Bytes())
	}
}

func (l *load) judge(t *testing.T, killed time.Time) {
	if l.installed != nil {
		missing(t, "the "+l.name+" driver", l.installed.Error())
	}
	counts, early, late := map[string]int{}, 0, 0
	for _, e := range l.events {
		counts[e.kind]++
		switch {
		case e.kind == "missing":
			t.Errorf("acknowledged, but missing: %s", e.text)
		case e.kind == "error" && e.at.After(killed.Add(-100*time.Millisecond)) && e.at.Before(killed.Add(detection)):
			early++
		case e.kind == "error":
			if late++; late <= 5 {
				t.Errorf("%v after the crash: %s", e.at.Sub(killed), e.text)
			}
		}
	}
	if l.err != nil || counts["done"] != 1 {
		t.Errorf("it ended before it was complete: %v", l.err)
	}
	if counts["acked"] < 200 {
		t.Errorf("only %d writes were acknowledged", counts["acked"])
	}
	t.Logf("%d writes acknowledged, %d requests failed before the crash was seen, %d after", counts["acked"], early,
		late)
}

// installed returns an error if the driver cannot be executed.
func (d driver) installed() error {
	if d.file != "" && !exists(d.file) {
		return fmt.Errorf(installHint, d.name)
	}
	_, err := exec.LookPath(d.argv[0])
	return err
}
