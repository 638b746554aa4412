package azuretables

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestThrottledClientsGetRetryAfter(t *testing.T) {
	b := newBench(t, func(o *Options) { o.PartitionTarget, o.AccountTarget = 10, 25 })
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	put := func(partition string, i int) (status int, after string) {
		resp, body := b.send(fmt.Sprintf("PUT /devstoreaccount1/races(PartitionKey='%s',RowKey='%d')\nContent-Type: "+
			"application/json\n\n{}", partition, i))
		if resp.StatusCode == 503 && !strings.Contains(body, `"code":"ServerBusy"`) {
			t.Fatalf("the error is %s", body)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	for i := range 10 {
		if status, _ := put("a", i); status != 204 {
			t.Fatalf("entity %d of 10 a second: %d", i, status)
		}
	}
	writes := b.memory.writes
	if status, after := put("a", 10); status != 503 || after != "1" {
		t.Fatalf("the eleventh entity within a second: %d, Retry-After %q", status, after)
	}
	if b.memory.writes != writes {
		t.Fatal("a refused change was made")
	}
	for range 50 { // more often than the account's rate allows
		put("a", 10)
	}
	if status, _ := put("b", 0); status != 204 {
		t.Fatalf("another partition was charged: status %d", status)
	}
	b.clock.advance(time.Second)
	if status, _ := put("a", 11); status != 204 {
		t.Fatalf("a second later: status %d", status)
	}
	done := 0
	for i := range 100 { // different partitions: only the account's target stops these
		if status, _ := put(fmt.Sprint("c", i), 0); status == 204 {
			done++
		}
	}
	if done != 24 {
		t.Errorf("an account of 25 entities a second did %d more", done)
	}
}

func TestBatchLargerThanTargetIsCharged(t *testing.T) {
	now := time.Duration(0)
	th := newThrottle(10, 1, func() time.Duration { return now })
	if _, ok := th.admit("p", 100); !ok {
		t.Fatal("a batch beyond the target never gets in")
	}
	wait, ok := th.admit("p", 1)
	if ok || wait < 9*time.Second || wait > 10*time.Second {
		t.Fatalf("after 100 at 10 a second: %v, %v", wait, ok)
	}
	now += wait
	if _, ok := th.admit("p", 1); !ok {
		t.Error("a client that waited for Retry-After was refused again")
	}
}

func TestBucketsDoNotGrowAndForgetTheLeastBusy(t *testing.T) {
	now := time.Duration(0)
	th := newThrottle(10, 1, func() time.Duration { return now })
	th.admit("busy", 50)
	for i := range 1000 {
		th.admit(fmt.Sprint(i), 1)
	}
	if _, ok := th.admit("busy", 1); ok {
		t.Error("the partition that is furthest over its target was forgotten for others")
	}
	if len(th.sets) != 1 {
		t.Errorf("%d sets", len(th.sets))
	}
}

func TestNoTargetAdmitsAllRequests(t *testing.T) {
	th := newThrottle(0, 1, nil)
	for range 10000 {
		if _, ok := th.admit("x", 1000); !ok {
			t.Fatal("refused without a target")
		}
	}
}
