package drain

import "testing"

// busy is a connection that executes some requests.
type busy int

// Executing implements Executor.
func (b busy) Executing() int { return int(b) }

// Connections of one client end one after the other, each once the client has been quiet since the end of the previous
// one. Late in a drain they end independently.
func TestConnectionsOfAClientEndInSequence(t *testing.T) {
	var all Clients
	key := Key{Driver: "gocql"}
	var conns [2]Connection
	for i := range conns {
		conns[i].Begin(modelEpoch, modelEpoch, 0, all.Join(key, busy(0)), false, testLimits)
	}
	if all.Join(Key{Driver: "other"}, busy(0)) == all.Join(key, busy(0)) {
		t.Error("two drivers are one client")
	}
	step := func(i int, v View) Action { return conns[i].Step(v) }
	now := modelEpoch.Add(WatchTime)
	for i := range conns {
		if got := step(i, View{Now: now}); got != Hold {
			t.Errorf("after WatchTime: action %d, want Hold", got)
		}
	}
	now = now.Add(HoldNoneQuiet)
	if got := step(0, View{Now: now, Held: true}); got != End {
		t.Errorf("quiet: action %d, want End", got)
	}
	client, ok := conns[0].BeginEnd(now)
	if _, both := conns[1].BeginEnd(now); !ok || both {
		t.Errorf("the ends of two connections begin: %v, %v", ok, both)
	}
	client.FinishEnd(now, true)
	if got := step(1, View{Now: now, Held: true}); got != Wait {
		t.Errorf("just after the end of another connection: action %d, want Wait", got)
	}
	late := modelEpoch.Add(testLimits.Timeout*3/4 - 1)
	conns[0].BeginEnd(now)
	if _, ok := conns[1].BeginEnd(late); !ok {
		t.Error("late in a drain, a connection waits for the end of another")
	}
}

// The requests of all connections of a client are seen by each.
func TestRequestsOfAClientAreCountedTogether(t *testing.T) {
	var all Clients
	var conns [2]Connection
	for i := range conns {
		conns[i].Begin(modelEpoch, modelEpoch, 7, all.Join(Key{}, busy(2*i)), false, testLimits)
	}
	conns[0].Step(View{Now: modelEpoch, Requests: 9})
	conns[1].Step(View{Now: modelEpoch, Requests: 10, Executing: 2})
	if got := conns[1].ending.client; got != 5 {
		t.Errorf("%d requests of the client, want 5", got)
	}
	if got := all.Join(Key{}, busy(1)).executing(); got != 3 {
		t.Errorf("%d requests are executed, want 3", got)
	}
}
