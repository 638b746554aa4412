package elle

import (
	"slices"
	"strings"
	"testing"
)

type lists = map[string][]int64

// txn is a transaction at a moment of its own.
func txn(at int64, reads, appends lists) *Transaction {
	return &Transaction{Reads: reads, Appends: appends, Call: 2 * at, Returned: 2*at + 1}
}

// at is a transaction that was under way all the time.
func during(reads, appends lists) *Transaction {
	return &Transaction{Reads: reads, Appends: appends, Call: 1, Returned: 1000}
}

func TestAppendCheckerFindsAnomalies(t *testing.T) {
	failed := during(nil, lists{"x": {1}})
	failed.Failed, failed.Returned = true, 0
	open := during(nil, lists{"x": {1}})
	open.Returned = 0
	for _, c := range []struct {
		name string
		want string // the beginning of the anomaly; empty: there is none
		txns []*Transaction
	}{
		{"a good history", "", []*Transaction{
			txn(1, lists{"x": {}}, lists{"x": {1}}), txn(2, lists{"x": {1}}, lists{"x": {2, 3}}),
			txn(3, lists{"x": {1, 2, 3}}, nil),
		}},
		{"an unknown one that took effect", "", []*Transaction{open, txn(9, lists{"x": {1}}, nil)}},
		{"an unknown one that did not", "", []*Transaction{open, txn(9, lists{"x": {}}, nil)}},
		{"a failed one that took effect", "G1a", []*Transaction{failed, txn(9, lists{"x": {1}}, nil)}},
		{"half of a transaction", "G1b", []*Transaction{during(nil, lists{"x": {1, 2}}), during(lists{"x": {1}}, nil)}},
		{"appended twice", "duplicates", []*Transaction{during(nil, lists{"x": {1}}), during(lists{"x": {1, 1}}, nil)}},
		{"two orders", "incompatible order", []*Transaction{
			during(nil, lists{"x": {1}}), during(nil, lists{"x": {2}}), during(lists{"x": {1, 2}}, nil),
			during(lists{"x": {2, 1}}, nil),
		}},
		{"out of nothing", "transaction 0 read 7", []*Transaction{during(lists{"x": {7}}, nil)}},
		{"writes in a circle", "G0", []*Transaction{
			during(nil, lists{"x": {1}, "y": {2}}), during(nil, lists{"x": {3}, "y": {4}}),
			during(lists{"x": {1, 3}, "y": {4, 2}}, nil),
		}},
		{"each read the other's", "G1c", []*Transaction{
			during(lists{"y": {2}}, lists{"x": {1}}), during(lists{"x": {1}}, lists{"y": {2}}),
		}},
		{"read skew", "G-single", []*Transaction{
			during(nil, lists{"x": {1}, "y": {2}}), during(lists{"x": {1}, "y": {}}, nil),
		}},
		{"a lost update", "lost update", []*Transaction{
			during(lists{"x": {}}, lists{"x": {1}}), during(lists{"x": {}}, lists{"x": {2}}),
			during(lists{"x": {1, 2}}, nil),
		}},
		{"a stale read", "G-single in real time", []*Transaction{
			txn(1, nil, lists{"x": {1}}), txn(2, lists{"x": {}}, nil), txn(3, lists{"x": {1}}, nil),
		}},
		{"an acknowledged append that vanished", "G-single in real time", []*Transaction{
			txn(1, nil, lists{"x": {1}}), txn(2, lists{"x": {}}, nil),
		}},
		{"write skew", "G2", []*Transaction{
			during(lists{"x": {}, "y": {}}, lists{"x": {1}}), during(lists{"x": {}, "y": {}}, lists{"y": {2}}),
		}},
	} {
		got := strings.Join(Check(c.txns), "\n")
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAppendCheckerRepeatsItsReport checks a history with several cycles again and again: a seed must fail with the
// same report each time.
func TestAppendCheckerRepeatsItsReport(t *testing.T) {
	var txns []*Transaction
	for range 6 {
		txns = append(txns, during(lists{"x": {}, "y": {}}, lists{"x": {int64(len(txns) + 1)}}),
			during(lists{"x": {}, "y": {}}, lists{"y": {int64(len(txns) + 2)}}))
	}
	first := Check(txns)
	for range 50 {
		if again := Check(txns); !slices.Equal(again, first) {
			t.Fatalf("the same history is reported as %v and as %v", first, again)
		}
	}
	if len(first) == 0 {
		t.Error("no anomaly is found")
	}
}
